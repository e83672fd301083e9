#include "cache_daemon/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>

namespace terrace::daemon {
namespace {

using nlohmann::ordered_json;

static_assert(static_cast<int>(config::LogLevel::trace) == SPDLOG_LEVEL_TRACE);
static_assert(static_cast<int>(config::LogLevel::error) == SPDLOG_LEVEL_ERROR);

spdlog::level::level_enum level_of(config::LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level);
}

// The fields of the line that this thread is writing: the formatter runs within the call.
thread_local const std::initializer_list<LogField>* fields_of_line = nullptr;

ordered_json value_of(const LogValue& value) {
  return std::visit([](const auto& one) { return ordered_json(one); }, value);
}

class JsonLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    ordered_json line = {{"time", std::string(time.data(), time.size())},
                         {"level", std::string(level.data(), level.size())},
                         {"message", std::string(message.payload.data(), message.payload.size())}};
    if (fields_of_line)
      for (const auto& [name, value] : *fields_of_line) line[std::string(name)] = value_of(value);
    const std::string text =
        line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonLines>();
  }

 private:
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%e%z", spdlog::pattern_time_type::local, ""};
};

class TextLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    line_.format(message, out);
    if (fields_of_line)
      for (const auto& [name, value] : *fields_of_line) {
        const ordered_json json = value_of(value);
        const std::string text = " " + std::string(name) + "=" +
                                 json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
        out.append(text.data(), text.data() + text.size());
      }
    // What a library says may have lines of its own.
    while (out.size() > 0 && out[out.size() - 1] == '\n') out.resize(out.size() - 1);
    for (char& c : out)
      if (c == '\n') c = ' ';
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TextLines>();
  }

 private:
  spdlog::pattern_formatter line_{"%Y-%m-%dT%H:%M:%S.%e %l %v", spdlog::pattern_time_type::local,
                                  ""};
};

}  // namespace

void set_up_log(const config::LogOptions& options) {
  auto logger = spdlog::stderr_logger_mt("terraced");
  if (options.format == config::LogFormat::json)
    logger->set_formatter(std::make_unique<JsonLines>());
  else
    logger->set_formatter(std::make_unique<TextLines>());
  logger->set_level(level_of(options.level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level(config::LogLevel level) { spdlog::set_level(level_of(level)); }

void log_event(config::LogLevel level, std::string_view what,
               std::initializer_list<LogField> fields) {
  fields_of_line = &fields;
  spdlog::log(level_of(level), what);
  fields_of_line = nullptr;
}

}  // namespace terrace::daemon
