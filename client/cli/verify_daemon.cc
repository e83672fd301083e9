#include "client/cli/verify_daemon.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "client/cli/text.h"
#include "core/bytes.h"

namespace terrace::cli {
namespace {

using nlohmann::ordered_json;

// So much of what the daemon reads at a stretch: requests are slowed for no longer than that takes.
constexpr std::uint32_t verify_page_blocks = 128;
constexpr std::uint64_t verify_page_bytes = 8ull << 20;
constexpr std::chrono::seconds verify_page_timeout{60};

constexpr std::array<const char*, 3> verified_tiers = {"device", "host", "disk"};

}  // namespace

Status add_verify_page(const std::string& json, VerifyReport& report) {
  try {
    const auto page = nlohmann::json::parse(json);
    report.blocks += page.at("blocks").get<std::uint64_t>();
    report.bytes += page.at("bytes").get<std::uint64_t>();
    for (std::size_t i = 0; i < verified_tiers.size(); ++i)
      report.copies[i] += page.at("copies").at(verified_tiers[i]).get<std::uint64_t>();
    for (const auto& bad : page.at("bad"))
      report.bad.push_back({bad.at("key"), bad.at("space"), bad.at("tier"), bad.at("place"),
                            bad.at("reason"), bad.at("removed")});
    return {};
  } catch (const nlohmann::json::exception&) {
    return Status(StatusCode::internal, "terraced gave an answer that makes no sense");
  }
}

Result<VerifyReport> verify_daemon(client::OperatorClient& daemon, const VerifyOptions& options,
                                   std::ostream* progress) {
  VerifyReport report;
  std::optional<BlockKey> from;
  do {
    const auto started = std::chrono::steady_clock::now();
    const auto page = daemon.verify_blocks(from, verify_page_blocks, verify_page_bytes,
                                           options.remove, started + verify_page_timeout);
    if (!page) return error(page.error());
    if (Status status = add_verify_page(page->json, report); !status.ok()) return error(status);
    from = page->next;
    if (progress)
      *progress << "\r" << report.blocks << " blocks, " << format_bytes(report.bytes) << ", "
                << report.bad.size() << " bad  " << std::flush;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    if (from) std::this_thread::sleep_for(took * (1 / options.share - 1));
  } while (from);
  if (progress) *progress << "\n";
  return report;
}

void print_verify_report(const VerifyReport& report, std::ostream& out) {
  for (const BadCopy& bad : report.bad)
    out << bad.key << "  " << bad.tier << "  " << printable(bad.place) << "  "
        << printable(bad.reason) << (bad.removed ? "  (removed)" : "") << "\n";
  out << "read " << counted(report.blocks, "block") << ", " << format_bytes(report.bytes) << ":";
  for (std::size_t i = 0; i < verified_tiers.size(); ++i)
    out << (i == 0 ? " " : ", ") << report.copies[i] << " copies in " << verified_tiers[i];
  out << "; " << report.bad.size() << " do not verify\n";
}

void print_verify_report_json(const VerifyReport& report, std::ostream& out) {
  ordered_json bad = ordered_json::array();
  for (const BadCopy& one : report.bad)
    bad.push_back({{"key", one.key},
                   {"space", one.space},
                   {"tier", one.tier},
                   {"place", one.place},
                   {"reason", one.reason},
                   {"removed", one.removed}});
  ordered_json copies;
  for (std::size_t i = 0; i < verified_tiers.size(); ++i)
    copies[verified_tiers[i]] = report.copies[i];
  out << ordered_json{{"blocks", report.blocks},
                      {"bytes", report.bytes},
                      {"copies", copies},
                      {"bad", std::move(bad)}}
             .dump(-1, ' ', false, ordered_json::error_handler_t::replace)
      << "\n";
}

}  // namespace terrace::cli
