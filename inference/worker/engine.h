// A loaded model with its tokenizer and, where a daemon answers, its share of the prefix cache:
// what turns a prompt into an answer. Used by terrace-worker and by the benchmarks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/client.h"
#include "core/space.h"
#include "core/status.h"
#include "inference/model/llama.h"
#include "inference/model/sampler.h"
#include "inference/paged_kv/sequence_kv.h"
#include "inference/tokenizer/chat_template.h"
#include "inference/tokenizer/prompt_text.h"
#include "inference/tokenizer/tokenizer.h"
#include "inference/worker/backend.h"

namespace terrace::inference {

struct EngineOptions {
  std::string model_path;
  ModelOptions model;
  bool use_cache = true;
  std::string socket_path;  // empty: the client's default
  std::string token_file;   // whose first line is shown to terraced; empty: none
  // How long to wait for a prefix that another worker is computing; 0: not at all.
  std::chrono::milliseconds single_flight_wait{10'000};
  // One line about why there is no cache, once an outage; called on the thread that noticed.
  std::function<void(const std::string&)> warn;
};

// Tells people of an outage of the cache once, however many requests notice it. Thread-safe.
class OutageNotice {
 public:
  explicit OutageNotice(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}
  // Until then nothing is told: whoever cannot start has another line to say.
  void begin();
  void tell(const std::string& line);
  // The cache is back: the next outage is another one.
  void over();

 private:
  std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  bool begun_ = false;
  bool told_ = false;
};

enum class FinishReason { stop, length };
const char* to_string(FinishReason reason);

struct GenerateOptions {
  std::uint32_t max_tokens = 256;  // at least 1
  SamplingOptions sampling;
  // Whether the cache may keep anything of this request. What is cached already is used either way.
  bool store = true;
  // Called with each piece of text that is complete (never half a UTF-8 character). May be empty.
  std::function<void(std::string_view)> on_text;
};

struct Generation {
  std::string text;
  std::vector<Token> token_ids;  // without the token that ended the answer
  std::size_t prompt_tokens = 0;
  PrefixHit hit;
  double ttft_ms = 0;              // from the call to the first token
  double decode_tokens_per_s = 0;  // of the tokens after the first; 0 if there are none
  FinishReason finish_reason = FinishReason::length;
};

class Engine {
 public:
  // Loads the model while the connection to the daemon is made. Without a daemon the engine works
  // all the same.
  static Result<std::unique_ptr<Engine>> load(EngineOptions options);

  // The ids of a conversation through the model's chat template.
  Result<std::vector<Token>> encode_chat(std::span<const tokenizer::Message> messages) const;
  // The ids of a text as it stands, special texts parsed, with a BOS where the model wants one.
  std::vector<Token> encode_raw(std::string_view text) const;
  // The ids of one question, as it stands or through the model's chat template.
  Result<std::vector<Token>> encode(const tokenizer::PromptText& prompt) const;

  // Answers a prompt. invalid_argument if it is empty or longer than the model's context. One call
  // at a time.
  Result<Generation> generate(std::span<const Token> prompt, const GenerateOptions& options);

  // Waits until the daemon knows of everything computed so far, or for `limit` at most.
  void flush_cache(std::chrono::milliseconds limit);

  Llama& model() { return *model_; }
  const Llama& model() const { return *model_; }
  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Null without a cache.
  client::Client* client() { return client_.get(); }
  client::Space* space() { return space_.get(); }

  // What a sequence may ask of the cache that begins now.
  SequenceCacheOptions sequence_cache_options() const;

 private:
  Engine() = default;

  EngineOptions options_;
  std::shared_ptr<OutageNotice> outage_;
  std::shared_ptr<const gpu::CudaRuntime> cuda_;  // null: the CPU computes
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  Result<tokenizer::ChatTemplate> chat_template_;
  std::unique_ptr<Llama> model_;
  std::unique_ptr<PrivateMemory> private_memory_;  // of sequences that bring none
  std::unique_ptr<client::Client> client_;
  std::shared_ptr<client::Space> space_;
  double prefill_tokens_per_second_ = 0;  // of the last long enough prompt
};

}  // namespace terrace::inference
