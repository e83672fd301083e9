#include "cache_daemon/http/token_text.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "cache_daemon/http/http_limits.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::daemon {
namespace {

Result<std::unique_ptr<tokenizer::Tokenizer>> load(const std::string& path) {
  const auto file = gguf::File::open(path);
  if (!file) return error(file.error());
  return tokenizer::Tokenizer::load(**file);
}

}  // namespace

TokenText::TokenText(std::vector<config::ModelOptions> models) {
  if (models.empty()) return;
  loading_ = std::async(std::launch::async, [models = std::move(models)] {
    Tokenizers tokenizers;
    for (const config::ModelOptions& model : models) {
      auto loaded = load(model.file);
      if (loaded)
        tokenizers[model.label] = std::move(*loaded);
      else
        spdlog::warn("models.{}: its tokens are shown as numbers: {}", model.name,
                     loaded.error().message());
    }
    return tokenizers;
  });
}

std::optional<std::string> TokenText::text(const std::string& label,
                                           std::span<const Token> tokens) {
  if (loading_ && loading_->wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    tokenizers_ = std::exchange(loading_, std::nullopt)->get();
  const auto found = tokenizers_.find(label);
  if (found == tokenizers_.end()) return std::nullopt;
  std::string text = found->second->decode(tokens, true);
  if (text.size() > max_shown_text_bytes) text.resize(max_shown_text_bytes);
  return text;
}

}  // namespace terrace::daemon
