#include "inference/worker/engine.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "inference/cuda/cuda_arena.h"
#include "inference/model/model_digest.h"
#include "inference/worker/text_stream.h"

namespace terrace::inference {

namespace {

using Steady = std::chrono::steady_clock;

double milliseconds_since(Steady::time_point begin) {
  return std::chrono::duration<double, std::milli>(Steady::now() - begin).count();
}

// How long loading waits for a daemon that accepted the connection and has not answered yet.
constexpr std::chrono::seconds connect_limit{1};

// Fewer tokens than this say little about the speed of a prompt.
constexpr std::size_t min_tokens_for_speed = 128;

std::string model_label(const gguf::File& file) {
  if (const auto name = file.text("general.name"); name && !name->empty() && name->size() <= 256)
    return std::string(*name);
  return std::filesystem::path(file.path()).stem().string().substr(0, 256);
}

SpaceDescriptor describe_space(const gguf::File& file, const Llama& model) {
  const KvGeometry geometry = model.kv_geometry();
  SpaceDescriptor space;
  space.model_digest = model_digest(file, model.threads());
  space.numerics_id = model.numerics_id();
  space.kv_dtype = to_string(geometry.dtype);
  space.layout_id = cpu_layout_id;
  space.block_tokens = geometry.block_tokens;
  space.block_bytes = geometry.block_bytes();
  space.label = model_label(file);
  return space;
}

std::unique_ptr<client::Client> connect(const EngineOptions& engine,
                                        const std::shared_ptr<const gpu::CudaRuntime>& cuda,
                                        std::shared_ptr<OutageNotice> outage) {
  client::ClientOptions options;
  if (cuda) options.arena_importer = std::make_shared<gpu::CudaArenaImporter>(cuda);
  options.socket_path = engine.socket_path;
  options.identity.token_file = engine.token_file;
  options.client_name = "terrace-worker";
  options.on_change = [outage = std::move(outage)](bool connected, const std::string& why) {
    if (connected) {
      outage->over();
    } else {
      outage->tell("no cache: " + why + "; going on without it");
    }
  };
  return client::Client::start(std::move(options));
}

}  // namespace

const char* to_string(FinishReason reason) {
  return reason == FinishReason::stop ? "stop" : "length";
}

void OutageNotice::tell(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  if (begun_ && !std::exchange(told_, true) && warn_) warn_(line);
}

void OutageNotice::begin() {
  const std::scoped_lock lock(mutex_);
  begun_ = true;
}

void OutageNotice::over() {
  const std::scoped_lock lock(mutex_);
  told_ = false;
}

Result<std::unique_ptr<Engine>> Engine::load(EngineOptions options) {
  std::unique_ptr<Engine> engine(new Engine());
  auto cuda = open_backend(options.model.backend, options.warn);
  if (!cuda) return error(cuda.error());
  engine->cuda_ = std::move(*cuda);
  // The connection is made, and the arena mapped, while the weights are read.
  engine->outage_ = std::make_shared<OutageNotice>(options.warn);
  if (options.use_cache) engine->client_ = connect(options, engine->cuda_, engine->outage_);

  auto file = gguf::File::open(options.model_path);
  if (!file) return error(file.error());
  auto loaded_tokenizer = tokenizer::Tokenizer::load(**file);
  if (!loaded_tokenizer) return error(loaded_tokenizer.error());
  auto model = load_model(**file, options.model, engine->cuda_);
  if (!model) return error(model.error());
  engine->tokenizer_ = std::move(*loaded_tokenizer);
  engine->model_ = std::move(*model);
  engine->private_memory_ = std::make_unique<PrivateMemory>(engine->model_->kv_memory());
  engine->chat_template_ = tokenizer::ChatTemplate::detect(**file);
  engine->options_ = std::move(options);

  if (engine->client_) {
    engine->outage_->begin();
    engine->space_ = engine->client_->open_space(describe_space(**file, *engine->model_));
    const Status connected = engine->client_->wait_first_attempt(Steady::now() + connect_limit);
    if (!connected.ok())
      engine->outage_->tell("no cache: " + connected.message() + "; going on without it");
  }
  return engine;
}

Result<std::vector<Token>> Engine::encode_chat(std::span<const tokenizer::Message> messages) const {
  if (!chat_template_) return error(chat_template_.error());
  return tokenizer::encode_chat(*tokenizer_, *chat_template_, messages);
}

std::vector<Token> Engine::encode_raw(std::string_view text) const {
  return tokenizer::encode_raw(*tokenizer_, text);
}

Result<std::vector<Token>> Engine::encode(const tokenizer::PromptText& prompt) const {
  return tokenizer::encode_prompt(*tokenizer_, chat_template_, prompt);
}

SequenceCacheOptions Engine::sequence_cache_options() const {
  SequenceCacheOptions cache;
  cache.memory = private_memory_.get();
  if (!client_ || !client_->connected()) return cache;
  cache.budget = client_->request_budget();
  cache.prefill_tokens_per_second = prefill_tokens_per_second_;
  cache.single_flight_wait = options_.single_flight_wait;
  cache.on_failure = [this](const Status& why) {
    outage_->tell("the cache did not help: " + why.message() + "; going on without it");
  };
  return cache;
}

Result<Generation> Engine::generate(std::span<const Token> prompt, const GenerateOptions& options) {
  const auto begin = Steady::now();
  const std::size_t context = model_->config().context_length;
  if (prompt.empty()) return error(StatusCode::invalid_argument, "the prompt is empty");
  if (prompt.size() > context)
    return error(StatusCode::invalid_argument, "the prompt has " + std::to_string(prompt.size()) +
                                                   " tokens; the model's context holds " +
                                                   std::to_string(context));

  Generation result;
  result.prompt_tokens = prompt.size();
  SequenceCacheOptions cache = sequence_cache_options();
  cache.store = options.store;
  SequenceKv kv(model_->kv_geometry(), space_.get(), std::move(cache));
  result.hit = kv.start(prompt);
  if (Status status = kv.grow_to(prompt.size()); !status.ok()) return error(std::move(status));

  Sampler sampler(options.sampling);
  TextStream stream(*tokenizer_, options.on_text);
  std::vector<float> logits(model_->config().vocabulary);
  const auto step = [&](std::span<const Token> tokens) {
    const SequenceStep one{tokens, static_cast<std::uint32_t>(kv.length()), kv.blocks()};
    return model_->forward({&one, 1}, logits);
  };

  const auto fresh = prompt.subspan(result.hit.cached_tokens);
  const auto prefill_begin = Steady::now();
  // Pass by pass, each of which is sealed: whoever waits for it, or comes now, has it at once.
  auto rest = fresh;
  for (; rest.size() > max_pass_tokens; rest = rest.subspan(max_pass_tokens)) {
    const auto pass = rest.first(max_pass_tokens);
    if (Status status = step(pass); !status.ok()) return error(std::move(status));
    kv.computed(pass);
  }
  if (Status status = step(rest); !status.ok()) return error(std::move(status));
  const double prefill_ms = milliseconds_since(prefill_begin);
  if (fresh.size() >= min_tokens_for_speed)
    prefill_tokens_per_second_ = static_cast<double>(fresh.size()) * 1000 / prefill_ms;
  Token next = sampler.sample(logits);
  result.ttft_ms = milliseconds_since(begin);
  // Only now: the answer does not wait for checksums.
  kv.computed(rest);

  const auto decode_begin = Steady::now();
  while (true) {
    if (tokenizer_->stop_tokens().contains(next)) {
      result.finish_reason = FinishReason::stop;
      break;
    }
    result.token_ids.push_back(next);
    stream.add(next);
    if (result.token_ids.size() >= options.max_tokens || kv.length() >= context) break;
    if (Status status = kv.grow_to(kv.length() + 1); !status.ok()) return error(std::move(status));
    if (Status status = step({&next, 1}); !status.ok()) return error(std::move(status));
    kv.computed({&next, 1});
    next = sampler.sample(logits);
  }
  const std::size_t decoded = kv.length() - prompt.size();
  if (decoded > 0)
    result.decode_tokens_per_s =
        static_cast<double>(decoded) * 1000 / milliseconds_since(decode_begin);
  result.text = stream.finish();
  return result;
}

void Engine::flush_cache(std::chrono::milliseconds limit) {
  if (space_ && client_->connected()) (void)space_->flush(Steady::now() + limit);
}

}  // namespace terrace::inference
