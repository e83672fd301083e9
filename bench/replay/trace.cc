#include "bench/replay/trace.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace terrace::bench {

namespace {

constexpr std::uint64_t trace_block_tokens = 512;

// False if the line is not a request.
bool parse_request(const std::string& line, bool full_blocks_only, TraceRequest& request) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  const auto ids = json.find("hash_ids"), length = json.find("input_length");
  if (ids == json.end() || !ids->is_array()) return false;
  for (const auto& id : *ids) {
    if (!id.is_number_unsigned() || id > UINT32_MAX) return false;
    request.blocks.push_back(id.get<std::uint32_t>());
  }
  if (!full_blocks_only || request.blocks.empty()) return true;
  if (length == json.end() || !length->is_number_unsigned()) return false;
  if (length->get<std::uint64_t>() % trace_block_tokens != 0) request.blocks.pop_back();
  return true;
}

}  // namespace

void Trace::renumber() {
  std::unordered_map<std::uint32_t, std::uint32_t> numbers;
  blocks = 0;
  for (TraceRequest& request : requests) {
    for (std::uint32_t& id : request.blocks)
      id = numbers.emplace(id, static_cast<std::uint32_t>(numbers.size())).first->second;
    blocks += request.blocks.size();
  }
  distinct = static_cast<std::uint32_t>(numbers.size());
}

Result<Trace> read_trace(const std::string& path, bool full_blocks_only) {
  std::ifstream file(path);
  if (!file) return error(StatusCode::io_error, path + ": cannot be read");
  Trace trace;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    TraceRequest request;
    if (!parse_request(line, full_blocks_only, request))
      return error(StatusCode::invalid_argument,
                   path + ":" + std::to_string(number) +
                       ": expected one JSON object with input_length and hash_ids");
    trace.requests.push_back(std::move(request));
  }
  if (file.bad()) return error(StatusCode::io_error, path + ": cannot be read to its end");
  trace.renumber();
  return trace;
}

}  // namespace terrace::bench
