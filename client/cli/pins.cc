#include "client/cli/pins.h"

#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/bytes.h"

namespace terrace::cli {
namespace {

// To the minute below a day, to the hour above: long enough to know whether to pin again.
std::string format_time_left(std::int64_t ms) {
  const std::int64_t minutes = (ms + 59'999) / 60'000;
  if (minutes < 60) return std::to_string(minutes) + " min";
  if (minutes < 48 * 60)
    return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
  return std::to_string(minutes / (24 * 60)) + " d " + std::to_string(minutes / 60 % 24) + " h";
}

nlohmann::ordered_json pin_json(const client::PinListing& pin) {
  return {{"key", pin.key.hex()},
          {"space", pin.space.hex()},
          {"tier", pin.tier ? to_string(*pin.tier) : "any"},
          {"expires_unix_ms", pin.expires_unix_ms},
          {"blocks", pin.blocks},
          {"bytes", pin.bytes},
          {"whole", pin.whole}};
}

}  // namespace

Result<BlockKey> parse_key(std::string_view hex) {
  BlockKey key;
  if (!from_hex(hex, key.bytes))
    return error(StatusCode::invalid_argument,
                 "'" + std::string(hex) + "' is no key: 64 hexadecimal digits, or the first " +
                     std::to_string(min_key_digits) +
                     " or more of one that is there, as 'terrace ls' shows");
  return key;
}

void print_pins(const std::vector<client::PinListing>& pins, std::int64_t now_unix_ms,
                std::ostream& out) {
  if (pins.empty()) {
    out << "nothing is pinned\n";
    return;
  }
  out << std::left << std::setw(66) << "key" << std::setw(8) << "tier" << std::right << std::setw(8)
      << "blocks" << std::setw(10) << "bytes"
      << "  expires in\n";
  for (const client::PinListing& pin : pins) {
    out << std::left << std::setw(66) << pin.key.hex() << std::setw(8)
        << (pin.tier ? to_string(*pin.tier) : "any") << std::right << std::setw(8) << pin.blocks
        << std::setw(10) << format_bytes(pin.bytes) << "  "
        << (pin.expires_unix_ms == 0 ? "never"
                                     : format_time_left(pin.expires_unix_ms - now_unix_ms))
        << (pin.whole ? "" : "  (not whole: compute it again)") << "\n";
  }
}

void print_pin_json(const client::PinListing& pin, std::ostream& out) {
  out << pin_json(pin).dump() << "\n";
}

void print_pins_json(const std::vector<client::PinListing>& pins, std::ostream& out) {
  auto list = nlohmann::ordered_json::array();
  for (const client::PinListing& pin : pins) list.push_back(pin_json(pin));
  out << list.dump() << "\n";
}

}  // namespace terrace::cli
