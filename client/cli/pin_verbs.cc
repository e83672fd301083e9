// Verbs about what operators hold in the cache.
#include <algorithm>
#include <iostream>
#include <optional>

#include "client/cli/pins.h"
#include "client/cli/program.h"
#include "client/cli/resolve.h"
#include "client/cli/text.h"
#include "core/bytes.h"
#include "core/clock.h"

namespace terrace::cli {
namespace {

// Ten years; longer is for ever.
constexpr std::uint64_t max_ttl_s = 3650ull * 86400;

struct PinOptions {
  std::string key;
  std::string tier;  // "": anywhere
  std::uint64_t ttl_s = 0;
  bool json = false;
};

Status run_pin(const Program& program, const PinOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto key = resolve_known_block(**daemon, options.key);
  if (!key) return key.error();
  std::optional<Tier> tier;
  if (!options.tier.empty()) tier = options.tier == "device" ? Tier::device : Tier::host;
  const auto pin = (*daemon)->pin(*key, tier, std::chrono::seconds(options.ttl_s), call_deadline());
  if (!pin) return pin.error();
  if (options.json)
    print_pin_json(*pin, std::cout);
  else
    print_pins({*pin}, SystemClock().unix_ms(), std::cout);
  return {};
}

Status run_unpin(const Program& program, const PinOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto key = resolve_block(**daemon, options.key);
  if (!key) return key.error();
  const auto pins = (*daemon)->list_pins(call_deadline());
  if (!pins) return pins.error();
  const auto pin = std::ranges::find(*pins, *key, &client::PinListing::key);
  if (pin == pins->end()) return Status(StatusCode::not_found, key->hex() + " is not pinned");
  if (Status status = (*daemon)->unpin(*key, call_deadline()); !status.ok()) return status;
  if (options.json)
    print_pin_json(*pin, std::cout);
  else
    std::cout << "unpinned " << key->hex() << ": " << counted(pin->blocks, "block") << ", "
              << format_bytes(pin->bytes) << "\n";
  return {};
}

Status run_pins(const Program& program, const JsonOption& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto pins = (*daemon)->list_pins(call_deadline());
  if (!pins) return pins.error();
  if (options.json)
    print_pins_json(*pins, std::cout);
  else
    print_pins(*pins, SystemClock().unix_ms(), std::cout);
  return {};
}

void add_key(CLI::App& verb, PinOptions& options) {
  verb.add_option("key", options.key, "of the prefix's last block, or its first 6 digits or more")
      ->required();
  add_json_option(verb, options.json);
}

}  // namespace

void add_pin_verbs(Program& program) {
  auto of_pin = std::make_shared<PinOptions>();
  CLI::App* const pin =
      program.add_verb(program.app, "pin", "keep a prefix in the cache", of_pin, run_pin);
  add_key(*pin, *of_pin);
  pin->add_option("--tier", of_pin->tier, "device or host: stay there once there (else anywhere)")
      ->check(CLI::IsMember({"device", "host"}));
  pin->add_option("--ttl", of_pin->ttl_s, "how long, such as 90m or 7d (else until unpin)")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}))
      ->check(CLI::Range(std::uint64_t{1}, max_ttl_s))
      ->type_name("TIME");

  auto of_unpin = std::make_shared<PinOptions>();
  add_key(*program.add_verb(program.app, "unpin", "end a pin", of_unpin, run_unpin), *of_unpin);

  auto of_pins = std::make_shared<JsonOption>();
  add_json_option(*program.add_verb(program.app, "pins", "what is pinned", of_pins, run_pins),
                  of_pins->json);
}

}  // namespace terrace::cli
