#include "config/worker_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/default_paths.h"
#include "tests/config/config_file.h"

namespace terrace::config {
namespace {

using ::testing::HasSubstr;

using Fields = std::vector<std::string>;
Fields fields_of(const ServerOptions& server) {
  return {std::to_string(server.listen.port),
          server.model_name,
          server.api_key_file,
          std::to_string(server.max_connections),
          std::to_string(server.max_body_bytes),
          std::to_string(server.max_sequences),
          std::to_string(server.max_queued),
          std::to_string(server.pass_tokens),
          std::to_string(server.kv_memory_bytes),
          std::to_string(server.drain_ms),
          std::to_string(server.slow_request_ms),
          std::to_string(static_cast<int>(server.log_level))};
}

TEST(WorkerConfig, ExampleEqualsTheDefaults) {
  const auto example =
      load_worker_config(std::filesystem::path(TERRACE_CONFIG_DIR) / "worker.toml", {});
  ASSERT_TRUE(example) << example.error().to_string();
  const WorkerConfig defaults = *load_worker_config(std::nullopt, {});
  EXPECT_EQ(defaults.socket_path, default_socket_path());
  EXPECT_EQ(example->model, defaults.model);
  EXPECT_EQ(example->socket_path, defaults.socket_path);
  EXPECT_EQ(example->cache, defaults.cache);
  EXPECT_EQ(example->single_flight_wait_ms, defaults.single_flight_wait_ms);
  EXPECT_EQ(example->backend, defaults.backend);
  EXPECT_EQ(example->compute, defaults.compute);
  EXPECT_EQ(example->kv, defaults.kv);
  EXPECT_EQ(example->isa, defaults.isa);
  EXPECT_EQ(example->threads, defaults.threads);
  EXPECT_EQ(example->max_tokens, defaults.max_tokens);
  EXPECT_EQ(example->sampling.temperature, defaults.sampling.temperature);
  EXPECT_EQ(example->sampling.top_k, defaults.sampling.top_k);
  EXPECT_EQ(example->sampling.top_p, defaults.sampling.top_p);
  EXPECT_EQ(example->sampling.seed, defaults.sampling.seed);
  EXPECT_EQ(fields_of(example->server), fields_of(defaults.server));
}

TEST(WorkerConfig, ReadsEveryOption) {
  const ConfigFile file(R"(
model = "m.gguf"
socket = "/tmp/a.sock"
cache = false
compute = "f32"
kv = "f32"
isa = "avx512_bf16"
threads = 3
max_tokens = 9
[sampling]
temperature = 1
top_k = 40
top_p = 0.9
seed = 4294967295
[server]
listen = "[::1]:81"
model_name = "n"
api_key_file = "k"
max_connections = 1
max_body = "1KiB"
max_sequences = 3
max_queued = 4
pass_tokens = 6
kv_memory = "1MiB"
drain_ms = 5
slow_request_ms = 0
log_level = "warning"
)");
  const auto config = load_worker_config(file.path(), {});
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->model, "m.gguf");
  EXPECT_EQ(config->socket_path, "/tmp/a.sock");
  EXPECT_FALSE(config->cache);
  EXPECT_EQ(config->compute, WorkerCompute::f32);
  EXPECT_EQ(config->kv, KvDtype::f32);
  EXPECT_EQ(config->isa, WorkerIsa::avx512_bf16);
  EXPECT_EQ(config->threads, 3);
  EXPECT_EQ(config->max_tokens, 9);
  EXPECT_EQ(config->sampling.temperature, 1.0);
  EXPECT_EQ(config->sampling.top_k, 40);
  EXPECT_EQ(config->sampling.top_p, 0.9);
  EXPECT_EQ(config->sampling.seed, 4294967295u);
  EXPECT_EQ(config->server.listen.host, "::1");
  EXPECT_EQ(fields_of(config->server),
            (Fields{"81", "n", "k", "1", "1024", "3", "4", "6", "1048576", "5", "0", "2"}));
}

TEST(WorkerConfig, AnswersLeaveHalfOfAPassToPrompts) {
  const ConfigFile file("[server]\nmax_sequences = 33\npass_tokens = 64\nlisten = \"here\"\n");
  const auto config = load_worker_config(file.path(), {});
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message(), HasSubstr("at most half of server.pass_tokens"));
  EXPECT_THAT(config.error().message(), HasSubstr("expected ADDRESS:PORT"));
}

TEST(WorkerConfig, BadValuesSayWhatWasExpected) {
  const ConfigFile file("\n[sampling]\ntemperature = nan\ntop_p = 1.5\ntop_k = -1\nseed = \"x\"\n");
  const auto config = load_worker_config(file.path(), {});
  ASSERT_FALSE(config);
  const std::string message = config.error().message();
  EXPECT_THAT(message, HasSubstr(":3: sampling.temperature: found the number nan, expected a "
                                 "number from 0 to 100"));
  EXPECT_THAT(message, HasSubstr(":4: sampling.top_p: found the number 1.5, expected a number from "
                                 "0 to 1"));
  EXPECT_THAT(message, HasSubstr(":5: sampling.top_k: found the number -1, expected a whole"));
  EXPECT_THAT(message, HasSubstr(":6: sampling.seed: found the text 'x', expected a whole"));
}

}  // namespace
}  // namespace terrace::config
