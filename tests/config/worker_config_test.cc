#include "config/worker_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/default_paths.h"
#include "tests/config/config_file.h"

namespace terrace::config {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(example->compute, defaults.compute);
  EXPECT_EQ(example->kv, defaults.kv);
  EXPECT_EQ(example->isa, defaults.isa);
  EXPECT_EQ(example->threads, defaults.threads);
  EXPECT_EQ(example->max_tokens, defaults.max_tokens);
  EXPECT_EQ(example->sampling.temperature, defaults.sampling.temperature);
  EXPECT_EQ(example->sampling.top_k, defaults.sampling.top_k);
  EXPECT_EQ(example->sampling.top_p, defaults.sampling.top_p);
  EXPECT_EQ(example->sampling.seed, defaults.sampling.seed);
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
