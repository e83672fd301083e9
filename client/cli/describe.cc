#include "client/cli/describe.h"

#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/cli/text.h"
#include "core/bytes.h"

namespace terrace::cli {
namespace {

using nlohmann::json;

constexpr std::size_t tokens_a_line = 16;

// Reads with a function that may meet anything but what it expects.
template <typename Read>
Status reading(const std::string& text, Read read) {
  try {
    read(json::parse(text));
    return {};
  } catch (const json::exception&) {
    return Status(StatusCode::internal, "terraced gave an answer that makes no sense");
  }
}

std::ostream& row(std::ostream& out, const char* name) {
  return out << std::left << std::setw(11) << name;
}

std::string slot_text(const json& slot) {
  const auto sealer = slot.at("sealed_by_session").get<std::uint64_t>();
  return "at " + std::to_string(slot.at("slot").get<std::uint64_t>()) + ", checksum " +
         printable(slot.at("checksum").get<std::string>()) +
         (slot.at("verified").get<bool>() ? " (verified)" : " (not verified yet)") +
         (sealer == 0 ? "" : ", sealed by session " + std::to_string(sealer));
}

// " (a client, process 42)".
std::string client_text(const json& session) {
  return " (" + printable(session.at("client").get<std::string>()) + ", process " +
         std::to_string(session.at("pid").get<std::int64_t>()) + ")";
}

}  // namespace

Result<std::string> session_text(const std::string& sessions_text, std::uint64_t id) {
  const std::string name = "session " + std::to_string(id);
  std::string text;
  const Status status = reading(sessions_text, [&](const json& sessions) {
    for (const json& session : sessions)
      if (session.at("id").get<std::uint64_t>() == id) text = name + client_text(session);
  });
  if (!status.ok()) return error(status);
  if (text.empty()) return error(StatusCode::not_found, "there is no " + name);
  return text;
}

Status print_inspection(const std::string& text, const std::string& sessions_text,
                        std::int64_t now_unix_ms, std::ostream& out) {
  return reading(text, [&](const json& block) {
    std::map<std::uint64_t, std::string> sessions;
    for (const json& session : json::parse(sessions_text))
      sessions[session.at("id").get<std::uint64_t>()] = client_text(session);
    row(out, "key") << printable(block.at("key").get<std::string>()) << "\n";
    const json& parent = block.at("parent");
    row(out, "parent") << (parent.is_null() ? "none: it begins prompts"
                                            : printable(parent.get<std::string>()))
                       << "\n";
    row(out, "space") << printable(block.at("space").get<std::string>()) << "\n";
    row(out, "depth") << block.at("depth").get<std::uint64_t>() << "\n";
    row(out, "followers") << block.at("children").get<std::uint64_t>() << "\n";
    row(out, "payload") << format_bytes(block.at("bytes").get<std::uint64_t>()) << "\n";
    const auto last_used_unix_ms = block.at("recency").get<std::int64_t>();
    row(out, "last used") << format_utc(last_used_unix_ms) << ", "
                          << format_age(now_unix_ms - last_used_unix_ms) << " ago\n";
    const auto created_unix_ms = block.at("created_unix_ms").get<std::int64_t>();
    row(out, "made") << format_utc(created_unix_ms) << ", "
                     << format_age(now_unix_ms - created_unix_ms) << " ago; "
                     << counted(block.at("uses").get<std::uint64_t>(), "use") << "\n";
    for (const auto& [tier, copy] : block.at("copies").items()) {
      row(out, tier.c_str());
      if (copy.contains("slot"))
        out << slot_text(copy) << "\n";
      else if (copy.contains("bytes"))
        out << format_bytes(copy.at("bytes").get<std::uint64_t>()) << " there\n";
      else
        out << "believed to be there\n";
    }
    row(out, "held by");
    const json& holders = block.at("held_by_sessions");
    if (holders.empty()) out << "no session";
    for (std::size_t i = 0; i < holders.size(); ++i) {
      const auto id = holders[i].get<std::uint64_t>();
      out << (i == 0 ? "session " : ", session ") << id << sessions[id];
    }
    out << "\n";
    row(out, "pins");
    const json& pins = block.at("pins");
    if (pins.empty()) out << "none";
    for (std::size_t i = 0; i < pins.size(); ++i)
      out << (i == 0 ? "" : ", ") << printable(pins[i].get<std::string>());
    out << "\n";
    const json& tokens = block.at("tokens");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i % tokens_a_line == 0) row(out, i == 0 ? "tokens" : "");
      out << tokens[i].get<std::int64_t>()
          << (i % tokens_a_line == tokens_a_line - 1 || i + 1 == tokens.size() ? "\n" : " ");
    }
  });
}

Status print_explanation(const std::string& text, std::ostream& out) {
  return reading(text, [&](const json& found) {
    const json& blocks = found.at("blocks");
    const auto tokens = found.at("tokens").get<std::uint64_t>();
    const auto block_tokens = found.at("block_tokens").get<std::uint64_t>();
    out << counted(tokens, "token") << ", " << counted(blocks.size(), "whole block") << " of "
        << block_tokens << "; " << counted(found.at("matched_tokens").get<std::uint64_t>(), "token")
        << " would be reused\n";
    // A run with one reason is one line.
    for (std::size_t i = 0; i < blocks.size();) {
      std::size_t end = i + 1;
      while (end < blocks.size() && blocks[end].at("why") == blocks[i].at("why") &&
             blocks[end].at("state") == blocks[i].at("state"))
        ++end;
      const std::string range =
          std::to_string(i) + (end == i + 1 ? "" : "-" + std::to_string(end - 1));
      out << "block" << (end == i + 1 ? "  " : "s ") << std::left << std::setw(11) << range
          << std::setw(8) << printable(blocks[i].at("state").get<std::string>()) << "  "
          << printable(blocks[i].at("why").get<std::string>()) << "\n";
      i = end;
    }
    if (const auto tail = found.at("tail_tokens").get<std::uint64_t>(); tail > 0)
      out << (tail == 1 ? "the last token fills"
                        : "the last " + std::to_string(tail) + " tokens fill")
          << " no block; only whole blocks are kept\n";
  });
}

Status print_sessions(const std::string& text, std::ostream& out) {
  return reading(text, [&](const json& sessions) {
    if (sessions.empty()) {
      out << "there are no sessions\n";
      return;
    }
    out << std::right << std::setw(8) << "session" << std::setw(9) << "pid" << std::setw(8)
        << "leases" << std::setw(9) << "blocks"
        << "  connected  client\n";
    for (const json& session : sessions)
      out << std::right << std::setw(8) << session.at("id").get<std::uint64_t>() << std::setw(9)
          << session.at("pid").get<std::int64_t>() << std::setw(8)
          << session.at("leases").get<std::uint64_t>() << std::setw(9)
          << session.at("blocks").get<std::uint64_t>() << "  " << std::left << std::setw(11)
          << (session.at("connected").get<bool>() ? "yes" : "no")
          << printable(session.at("client").get<std::string>()) << "\n";
  });
}

}  // namespace terrace::cli
