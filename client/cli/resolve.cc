#include "client/cli/resolve.h"

#include <algorithm>
#include <cctype>

#include "client/cli/program.h"

namespace terrace::cli {
namespace {

constexpr std::size_t key_digits = 2 * sizeof(BlockKey);

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_hex(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace

Result<BlockKey> resolve_block(client::OperatorClient& daemon, const std::string& text) {
  const std::string digits = lower(text);
  if (digits.size() < min_key_digits || digits.size() >= key_digits || !is_hex(digits))
    return parse_key(text);
  const auto from = parse_key(digits + std::string(key_digits - digits.size(), '0'));
  if (!from) return from;
  const auto page = daemon.list_blocks(*from, 2, call_deadline());
  if (!page) return error(page.error());
  const auto begins = [&](const client::BlockListing& block) {
    return block.key.hex().starts_with(digits);
  };
  const auto found = std::ranges::count_if(page->blocks, begins);
  if (found == 0)
    return error(StatusCode::not_found, "no block's key begins with '" + digits + "'");
  if (found > 1)
    return error(StatusCode::invalid_argument,
                 "several keys begin with '" + digits + "': give more digits");
  return page->blocks.front().key;
}

Result<BlockKey> resolve_known_block(client::OperatorClient& daemon, const std::string& text) {
  const auto key = resolve_block(daemon, text);
  if (!key) return key;
  const auto page = daemon.list_blocks(*key, 1, call_deadline());
  if (!page) return error(page.error());
  if (page->blocks.empty() || page->blocks.front().key != *key)
    return error(StatusCode::not_found, "there is no block " + key->hex());
  return key;
}

Result<std::vector<SpaceDescriptor>> resolve_spaces(client::OperatorClient& daemon,
                                                    const std::string& text) {
  auto spaces = daemon.list_spaces(call_deadline());
  if (!spaces) return spaces;
  const std::string digits = lower(text);
  std::erase_if(*spaces, [&](const SpaceDescriptor& space) {
    const bool by_digest = digits.size() >= min_key_digits && is_hex(digits) &&
                           space.digest().hex().starts_with(digits);
    return !text.empty() && !by_digest && space.label != text;
  });
  if (spaces->empty())
    return error(StatusCode::not_found,
                 text.empty() ? "there is no space" : "there is no space '" + text + "'");
  return spaces;
}

Result<SpaceDescriptor> resolve_space(client::OperatorClient& daemon, const std::string& text) {
  const auto found = resolve_spaces(daemon, text);
  if (!found) return error(found.error());
  if (found->size() > 1)
    return error(StatusCode::invalid_argument,
                 "there are " + std::to_string(found->size()) +
                     (text.empty() ? " spaces" : " of space '" + text + "'") +
                     ": name one by its digest ('terrace ls --json' shows them)");
  return found->front();
}

}  // namespace terrace::cli
