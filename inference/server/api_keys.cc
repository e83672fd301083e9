#include "inference/server/api_keys.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/secret_file.h"

namespace terrace::inference {

namespace {

Digest digest_of(std::string_view key) {
  return sha256({reinterpret_cast<const std::uint8_t*>(key.data()), key.size()});
}

}  // namespace

Result<ApiKeys> ApiKeys::read(const std::string& path) {
  const auto text = read_secret_text(path, max_api_keys_bytes);
  if (!text) return error(text.error());
  ApiKeys keys;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.pop_back();
    if (!line.empty() && line.front() != '#') keys.digests_.push_back(digest_of(line));
  }
  if (keys.digests_.empty()) return error(StatusCode::invalid_argument, path + " has no API key");
  if (keys.digests_.size() > max_api_keys)
    return error(StatusCode::invalid_argument,
                 path + " has more than " + std::to_string(max_api_keys) + " API keys");
  return keys;
}

bool ApiKeys::admit(std::string_view authorization) const {
  if (!required()) return true;
  // Names of schemes have no case (RFC 9110, 11.1).
  constexpr std::string_view scheme = "bearer ";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (authorization.size() < scheme.size() ||
      !std::equal(scheme.begin(), scheme.end(), authorization.begin(),
                  [&](char wanted, char is) { return same(is, wanted); }))
    return false;
  // Digests are compared, all of them whole: how long it takes says nothing of a key.
  const Digest asked = digest_of(authorization.substr(scheme.size()));
  unsigned found = 0;
  for (const Digest& known : digests_) {
    unsigned difference = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) difference |= asked[i] ^ known[i];
    found |= static_cast<unsigned>(difference == 0);
  }
  return found != 0;
}

}  // namespace terrace::inference
