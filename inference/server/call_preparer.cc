#include "inference/server/call_preparer.h"

#include <random>
#include <utility>

#include "inference/server/answer_json.h"
#include "inference/server/choice.h"

namespace terrace::inference {

namespace {

// A prompt as text, for an answer that begins with it.
std::string text_of(const ApiPrompt& prompt, const tokenizer::Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  std::string bytes = tokenizer.decode(std::get<std::vector<Token>>(prompt));
  return take_utf8(bytes, true);
}

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

CallPreparer::CallPreparer(const Engine& engine, Scheduler& scheduler, CallBoard& board,
                           std::string model, ApiDefaults defaults)
    : engine_(engine),
      scheduler_(scheduler),
      board_(board),
      model_(std::move(model)),
      defaults_(std::move(defaults)) {
  for (std::size_t i = 0; i < preparing_threads; ++i) threads_.emplace_back([this] { run(); });
}

CallPreparer::~CallPreparer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CallPreparer::prepare(std::shared_ptr<Call> call, ApiKind kind, std::string body) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(call), kind, std::move(body)});
  }
  wanted_.notify_one();
}

void CallPreparer::forget(const Call& call) {
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const Job& job) { return job.call.get() == &call; });
}

void CallPreparer::run() {
  while (true) {
    std::unique_lock lock(mutex_);
    wanted_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    prepare_now(job);
  }
}

void CallPreparer::prepare_now(const Job& job) {
  auto request = read(job);
  auto prompts = request ? encode(*request) : tl::unexpected(request.error());
  if (!prompts) {
    board_.post(job.call, std::move(prompts.error()));
    return;
  }
  CallAccepted accepted;
  for (const auto& prompt : *prompts) accepted.prompt_tokens += prompt.size();
  auto ids = scheduler_.submit(sequences_of(job.call, *request, *prompts));
  if (!ids) {
    board_.post(job.call, api_error_of(ids.error()));
    return;
  }
  accepted.sequences = *ids;
  accepted.request = std::move(*request);
  if (!board_.post(job.call, std::move(accepted))) scheduler_.cancel(std::move(*ids));
}

tl::expected<ApiRequest, ApiError> CallPreparer::read(const Job& job) const {
  auto request = parse_api_request(job.kind, job.body, defaults_);
  if (request && !request->model.empty() && request->model != model_)
    return tl::unexpected(ApiError{
        .status = 404,
        .message = "the model '" + request->model + "' does not exist; this is '" + model_ + "'",
        .param = "model",
        .code = "model_not_found"});
  return request;
}

tl::expected<CallPreparer::Prompts, ApiError> CallPreparer::encode(
    const ApiRequest& request) const {
  Prompts prompts;
  if (request.kind == ApiKind::chat) {
    auto tokens = engine_.encode_chat(request.messages);
    if (!tokens) return tl::unexpected(invalid_field("messages", tokens.error().message()));
    prompts.push_back(std::move(*tokens));
  }
  for (const ApiPrompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt))
      prompts.push_back(engine_.encode_raw(*text));
    else
      prompts.push_back(std::get<std::vector<Token>>(prompt));
  }
  const char* const field = request.kind == ApiKind::chat ? "messages" : "prompt";
  const LlamaConfig& config = engine_.model().config();
  for (const auto& prompt : prompts) {
    if (prompt.empty()) return tl::unexpected(invalid_field(field, "a prompt is empty"));
    if (prompt.size() > config.context_length)
      return tl::unexpected(ApiError{.message = "the prompt has " + std::to_string(prompt.size()) +
                                                " tokens; the model's context holds " +
                                                std::to_string(config.context_length),
                                     .param = field,
                                     .code = "context_length_exceeded"});
    for (const Token token : prompt)
      if (token < 0 || static_cast<std::uint32_t>(token) >= config.vocabulary)
        return tl::unexpected(invalid_field(
            field, "the token " + std::to_string(token) + " is outside of the vocabulary"));
  }
  return prompts;
}

std::vector<SequenceRequest> CallPreparer::sequences_of(const std::shared_ptr<Call>& call,
                                                        const ApiRequest& request,
                                                        const Prompts& prompts) {
  const std::uint64_t seed =
      request.seeded || request.sampling.temperature == 0 ? request.sampling.seed : random_seed();
  std::vector<SequenceRequest> sequences;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (std::uint32_t choice = 0; choice < request.choices; ++choice) {
      SequenceRequest sequence;
      sequence.prompt = prompts[i];
      sequence.max_tokens = request.max_tokens;
      sequence.priority = request.priority;
      sequence.sampling = request.sampling;
      sequence.sampling.seed = seed + choice;
      sequence.logprobs = request.logprobs;
      sequence.ignore_stop_tokens = request.ignore_stop_tokens;
      sequence.store = request.store;
      sequence.cache_salt = request.cache_salt;
      ChoiceOptions options;
      options.index = sequences.size();
      options.stop_texts = request.stop;
      if (request.echo) options.echo = text_of(request.prompts[i], engine_.tokenizer());
      options.with_tokens = request.logprobs || request.return_token_ids;
      options.at_once = !request.stream;
      sequence.receiver =
          std::make_shared<Choice>(board_, call, engine_.tokenizer(), std::move(options));
      sequences.push_back(std::move(sequence));
    }
  }
  return sequences;
}

}  // namespace terrace::inference
