// Counts what the log is told, while it lives. Made before, and gone after, whatever logs.
#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace terrace::storage {

class LogCounter {
 public:
  // Of lines that have this in them.
  explicit LogCounter(std::string text) : sink_(std::make_shared<Sink>(std::move(text))) {
    spdlog::default_logger()->sinks().push_back(sink_);
  }
  ~LogCounter() { spdlog::default_logger()->sinks().pop_back(); }
  LogCounter(const LogCounter&) = delete;

  unsigned count() const { return sink_->count(); }

 private:
  class Sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    explicit Sink(std::string text) : text_(std::move(text)) {}
    unsigned count() {
      const std::lock_guard lock(mutex_);
      return count_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      const std::string_view line(message.payload.data(), message.payload.size());
      count_ += line.find(text_) != std::string_view::npos;
    }
    void flush_() override {}

    const std::string text_;
    unsigned count_ = 0;
  };

  const std::shared_ptr<Sink> sink_;
};

}  // namespace terrace::storage
