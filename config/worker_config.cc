#include "config/worker_config.h"

#include <charconv>
#include <string>

#include "config/option_reader.h"
#include "config/paths.h"
#include "core/default_paths.h"

namespace terrace::config {

namespace {

void read_server(OptionReader& options, ServerOptions& server) {
  std::string listen = "127.0.0.1:8080";
  options.text("server.listen", listen);
  if (const auto address = parse_http_address(listen)) {
    server.listen = *address;
  } else {
    options.problem("server.listen", "found \"" + listen + "\", expected ADDRESS:PORT");
  }
  options.text("server.model_name", server.model_name);
  options.text("server.api_key_file", server.api_key_file);
  options.integer("server.max_connections", server.max_connections, 1, 65'536);
  options.bytes("server.max_body", server.max_body_bytes, 1024, std::uint64_t{1} << 30);
  options.integer("server.max_sequences", server.max_sequences, 1, 1024);
  options.integer("server.max_queued", server.max_queued, 1, 65'536);
  options.integer("server.pass_tokens", server.pass_tokens, 2, 4096);
  options.bytes("server.kv_memory", server.kv_memory_bytes, 1 << 16, std::uint64_t{1} << 44);
  options.integer("server.drain_ms", server.drain_ms, 0, 3'600'000);
  options.integer("server.slow_request_ms", server.slow_request_ms, 0, 3'600'000);
  options.choice("server.log_level", server.log_level,
                 {{"debug", WorkerLogLevel::debug},
                  {"info", WorkerLogLevel::info},
                  {"warning", WorkerLogLevel::warning}});
  if (2 * server.max_sequences > server.pass_tokens)
    options.problem("server.max_sequences",
                    "found " + std::to_string(server.max_sequences) +
                        ", expected at most half of server.pass_tokens, or no prompt gets on while "
                        "all of them decode");
}

constexpr int max_gpu_ordinal = 1023;

void read_backend(OptionReader& options, WorkerBackend& backend) {
  std::string text = "cpu";
  options.text("backend", text);
  if (const auto parsed = parse_worker_backend(text)) {
    backend = *parsed;
  } else {
    options.problem("backend", "found the text '" + text +
                                   "', expected \"cpu\", \"auto\", \"cuda\" or \"cuda:\" and "
                                   "a number");
  }
}

}  // namespace

std::optional<WorkerBackend> parse_worker_backend(std::string_view text) {
  constexpr std::string_view cuda = "cuda:";
  WorkerBackend backend;
  if (text == "cpu") return backend;
  backend.kind = WorkerBackend::Kind::automatic;
  if (text == "auto") return backend;
  backend.kind = WorkerBackend::Kind::cuda;
  if (text == "cuda") return backend;
  if (!text.starts_with(cuda)) return std::nullopt;
  text.remove_prefix(cuda.size());
  const char* const end = text.data() + text.size();
  const auto [read, failure] = std::from_chars(text.data(), end, backend.cuda_ordinal);
  if (failure != std::errc() || read != end || backend.cuda_ordinal < 0 ||
      backend.cuda_ordinal > max_gpu_ordinal)
    return std::nullopt;
  return backend;
}

Result<WorkerConfig> load_worker_config(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides) {
  Result<std::vector<Entry>> entries = read_entries(file, overrides);
  if (!entries) return error(entries.error());
  OptionReader options(std::move(*entries));

  WorkerConfig config;
  config.socket_path = default_socket_path();
  options.text("model", config.model);
  read_socket_path(options, "socket", config.socket_path);
  options.text("token_file", config.token_file);
  options.flag("cache", config.cache);
  options.integer("single_flight_wait_ms", config.single_flight_wait_ms, 0, 60'000);
  read_backend(options, config.backend);
  options.choice("compute", config.compute,
                 {{"bf16", WorkerCompute::bf16}, {"f32", WorkerCompute::f32}});
  options.choice("kv", config.kv, {{"bf16", KvDtype::bf16}, {"f32", KvDtype::f32}});
  options.choice("isa", config.isa,
                 {{"auto", WorkerIsa::automatic},
                  {"portable", WorkerIsa::portable},
                  {"avx2", WorkerIsa::avx2},
                  {"avx512", WorkerIsa::avx512},
                  {"avx512_bf16", WorkerIsa::avx512_bf16}});
  options.integer("threads", config.threads, 0, 1024);
  options.integer("max_tokens", config.max_tokens, 1, 1'000'000);
  options.number("sampling.temperature", config.sampling.temperature, 0, 100);
  options.integer("sampling.top_k", config.sampling.top_k, 0, 1'000'000);
  options.number("sampling.top_p", config.sampling.top_p, 0, 1);
  options.integer("sampling.seed", config.sampling.seed, std::uint32_t{0}, UINT32_MAX);

  read_server(options, config.server);

  if (Status status = options.finish(); !status.ok()) return error(status);
  return config;
}

}  // namespace terrace::config
