// terrace-worker serve, as its clients see it.
#include <signal.h>
#include <sys/stat.h>

#include <cctype>
#include <cstdio>
#include <random>

#include "client/operator.h"
#include "tests/integration/serve_fixture.h"
#include "tests/support/daemon_process.h"

namespace terrace::inference {
namespace {

using nlohmann::json;

constexpr const char* completions = "/v1/completions";
constexpr const char* chat = "/v1/chat/completions";

json random_prompt(std::size_t tokens, unsigned seed) {
  std::mt19937 random(seed);
  json prompt = json::array();
  for (std::size_t i = 0; i < tokens; ++i) prompt.push_back(random() % 300);
  return prompt;
}

class ServeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new test_support::TempDir;
    test_support::TinyModelOptions model;
    model.context_length = 4096;
    ASSERT_TRUE(test_support::write_tiny_model(model, model_path()).ok());
    server_ = new WorkerServer(model_path(), {"--no-cache"});
  }
  static void TearDownTestSuite() {
    delete server_;
    delete directory_;
  }
  static std::string model_path() { return directory_->file("tiny.gguf"); }

  static json ids_of(const ApiAnswer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.json().at("choices").at(0).at("token_ids") : json();
  }
  static json ids_of_stream(const ApiAnswer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    json ids = json::array();
    for (const json& event : answer.events())
      for (const json& choice : event.at("choices"))
        if (choice.contains("token_ids"))
          for (const json& id : choice.at("token_ids")) ids.push_back(id);
    return ids;
  }

  static void expect_load_passes(const WorkerServer& server) {
    const auto result =
        test_support::run_process({"/usr/bin/env", "python3", TERRACE_SERVE_LOAD,
                                   std::to_string(server.port()), "--requests", "300"},
                                  {}, std::chrono::seconds(120));
    EXPECT_EQ(result.status, 0) << result.output << result.errors;
  }

  static test_support::TempDir* directory_;
  static WorkerServer* server_;
};

test_support::TempDir* ServeTest::directory_ = nullptr;
WorkerServer* ServeTest::server_ = nullptr;

TEST_F(ServeTest, StreamedAndWholeAnswersAreTheSame) {
  json body = {{"prompt", random_prompt(100, 1)}, {"max_tokens", 30},   {"ignore_eos", true},
               {"return_token_ids", true},        {"temperature", 0.9}, {"seed", 5}};
  const ApiAnswer whole = server_->post(completions, body);
  ASSERT_EQ(whole.status, 200) << whole.body;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const ApiAnswer streamed = server_->post(completions, body);
  EXPECT_EQ(ids_of_stream(streamed), ids_of(whole));
  EXPECT_EQ(ids_of(whole).size(), 30u);
  EXPECT_TRUE(streamed.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  for (const json& event : streamed.events())
    for (const json& choice : event.at("choices")) text += choice.at("text").get<std::string>();
  EXPECT_EQ(text, whole.json()["choices"][0]["text"]);
  EXPECT_EQ(streamed.events().back().at("usage").at("completion_tokens"), 30);
  EXPECT_EQ(whole.json()["usage"]["prompt_tokens"], 100);
  EXPECT_EQ(whole.json()["choices"][0]["finish_reason"], "length");
}

TEST_F(ServeTest, ManyAtOnceAnswerAsEachAlone) {
  std::vector<json> bodies;
  const json system = random_prompt(200, 9);
  for (unsigned i = 0; i < 12; ++i) {
    json prompt = system;
    for (const json& id : random_prompt(1 + 30 * i, i)) prompt.push_back(id);
    bodies.push_back(
        {{"prompt", prompt}, {"max_tokens", 25}, {"ignore_eos", true}, {"return_token_ids", true}});
  }
  std::vector<json> alone, together;
  for (const json& body : bodies) alone.push_back(ids_of(server_->post(completions, body)));
  std::vector<UniqueFd> open;
  for (const json& body : bodies) open.push_back(server_->begin(completions, body));
  for (const UniqueFd& fd : open) together.push_back(ids_of(read_answer(fd)));
  EXPECT_EQ(together, alone);
}

TEST_F(ServeTest, AnswersAChatWithSeveralChoices) {
  const ApiAnswer answer =
      server_->post(chat, {{"messages", json::array({{{"role", "user"}, {"content", "hello"}}})},
                           {"n", 3},
                           {"max_tokens", 8},
                           {"temperature", 1},
                           {"ignore_eos", true},
                           {"logprobs", true},
                           {"top_logprobs", 2}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json object = answer.json();
  ASSERT_EQ(object.at("choices").size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const json& choice = object["choices"][i];
    EXPECT_EQ(choice.at("index"), i);
    EXPECT_EQ(choice.at("message").at("role"), "assistant");
    ASSERT_EQ(choice.at("logprobs").at("content").size(), 8u);
    EXPECT_EQ(choice["logprobs"]["content"][0].at("top_logprobs").size(), 2u);
  }
  EXPECT_EQ(object.at("usage").at("completion_tokens"), 24);
}

TEST_F(ServeTest, AStopTextEndsTheAnswerAndIsNoPartOfIt) {
  json body = {{"prompt", random_prompt(50, 3)}, {"max_tokens", 60}, {"ignore_eos", true}};
  const std::string text = server_->post(completions, body).json()["choices"][0]["text"];
  // The two plain letters that come first where nothing like them came before.
  std::string stop;
  for (std::size_t at = 1; at + 1 < text.size(); ++at) {
    const std::string two = text.substr(at, 2);
    if (std::isalnum(static_cast<unsigned char>(two[0])) &&
        std::isalnum(static_cast<unsigned char>(two[1])) && text.find(two) == at)
      stop = two;
  }
  ASSERT_FALSE(stop.empty()) << text;
  body["stop"] = stop;
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    const ApiAnswer answer = server_->post(completions, body);
    std::string got;
    json finish;
    const std::vector<json> parts = stream ? answer.events() : std::vector<json>{answer.json()};
    for (const json& part : parts) {
      got += part.at("choices").at(0).at("text").get<std::string>();
      finish = part["choices"][0].at("finish_reason");
    }
    EXPECT_EQ(got, text.substr(0, text.find(stop)));
    EXPECT_EQ(finish, "stop");
  }
}

struct BadRequest {
  std::string request;
  int status;
  const char* code;  // "" for none
};

TEST_F(ServeTest, RefusesWhatIsWrongInTheFormOfTheApi) {
  const std::string get = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const BadRequest all[] = {
      {post_text(completions, "{\"prompt\": "), 400, ""},
      {post_text(completions, R"({"prompt": "a", "n": 0})"), 400, ""},
      {post_text(completions, R"({"prompt": [320]})"), 400, ""},
      {post_text(completions, json{{"prompt", random_prompt(4097, 1)}}.dump()), 400,
       "context_length_exceeded"},
      {post_text(completions, R"({"prompt": "a", "model": "other"})"), 404, "model_not_found"},
      {post_text(completions, R"({"prompt": "a"})", "Content-Type: text/plain\r\n"), 415, ""},
      {post_text(completions, std::string((4 << 20) + 1, ' ')), 413, ""},
      {post_text("/v1/other", "{}"), 404, "not_found"},
      {"GET /v1/completions" + get, 405, "method_not_allowed"},
      {"GET /v1/models/other" + get, 404, "not_found"},
  };
  for (const BadRequest& bad : all) {
    const ApiAnswer answer = server_->send(bad.request);
    const std::string what = bad.request.substr(0, 200);
    EXPECT_EQ(answer.status, bad.status) << what;
    const json object = answer.json();
    ASSERT_TRUE(object.is_object() && object.contains("error")) << what << answer.body;
    EXPECT_FALSE(object["error"].at("message").get<std::string>().empty()) << what;
    EXPECT_EQ(object["error"].at("code"), *bad.code ? json(bad.code) : json()) << what;
  }
  EXPECT_EQ(server_->send("GET /health" + get).json().at("status"), "ok");
  EXPECT_EQ(server_->send("GET /v1/models" + get).json()["data"][0]["id"], "tiny");
  EXPECT_EQ(server_->send("GET /v1/models/t%69ny" + get).json()["id"], "tiny");
}

TEST_F(ServeTest, WhoHangsUpFreesEverything) {
  for (const bool stream : {true, false}) {
    UniqueFd fd = server_->begin(completions, {{"prompt", random_prompt(200, 1)},
                                               {"max_tokens", 3500},
                                               {"ignore_eos", true},
                                               {"stream", stream}});
    ASSERT_TRUE(server_->metric_becomes("terrace_worker_sequences{state=\"running\"}", 1));
    fd.reset();
    EXPECT_TRUE(server_->metric_becomes("terrace_worker_sequences{state=\"running\"}", 0));
    EXPECT_TRUE(server_->metric_becomes("terrace_worker_open_requests", 0));
    EXPECT_TRUE(server_->metric_becomes("terrace_worker_private_kv_bytes", 0));
  }
  EXPECT_TRUE(server_->metric_becomes(
      "terrace_worker_requests_total{code=\"499\",endpoint=\"completions\"}", 2));
}

TEST_F(ServeTest, AFullQueueAKeyAndTheEnd) {
  const std::string keys = directory_->file("keys");
  std::FILE* file = std::fopen(keys.c_str(), "w");
  std::fputs("secret\n", file);
  std::fclose(file);
  ASSERT_EQ(::chmod(keys.c_str(), 0600), 0);
  WorkerServer server(model_path(),
                      {"--no-cache", "--api-key-file", keys, "--set", "server.max_sequences=1",
                       "--set", "server.max_queued=1", "--set", "server.slow_request_ms=1"});
  const json body = {{"prompt", random_prompt(10, 1)}, {"max_tokens", 1500}, {"ignore_eos", true}};
  const auto post = [&](const std::string& key) {
    UniqueFd fd = test_support::connect_to_port(server.port());
    EXPECT_TRUE(test_support::send_all(
        fd, post_text(completions, body.dump(),
                      "Content-Type: application/json\r\nAuthorization: Bearer " + key + "\r\n")));
    return fd;
  };
  EXPECT_EQ(read_answer(post("wrong")).status, 401);
  EXPECT_EQ(server.post(completions, body).status, 401);
  const UniqueFd running = post("secret");
  ASSERT_TRUE(server.metric_becomes("terrace_worker_sequences{state=\"running\"}", 1));
  UniqueFd queued = post("secret");
  ASSERT_TRUE(server.metric_becomes("terrace_worker_sequences{state=\"queued\"}", 1));
  const ApiAnswer refused = read_answer(post("secret"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.head.find("Retry-After: "), std::string::npos);
  EXPECT_EQ(refused.json().at("error").at("code"), "rate_limit_exceeded");
  queued.reset();

  server.process().signal(SIGTERM);
  ASSERT_TRUE(test_support::wait_until(
      [&] { return test_support::http_get(server.port(), "/health").status == 503; }));
  EXPECT_EQ(read_answer(post("secret")).status, 503);
  EXPECT_EQ(read_answer(running).status, 200);
  EXPECT_EQ(server.process().wait(std::chrono::seconds(60)), 0);
  EXPECT_NE(server.process().errors().find("slow request cmpl-"), std::string::npos);
}

// The same over so little memory that answers have to give it up.
TEST_F(ServeTest, AMixedLoadOverLittleMemoryLeavesNothingBehind) {
  const WorkerServer server(model_path(), {"--no-cache", "--set", "server.kv_memory=1MiB", "--set",
                                           "server.max_sequences=12"});
  expect_load_passes(server);
  EXPECT_GT(server.metric("terrace_worker_preemptions_total"), 0);
}

// With a daemon.
class ServeCached : public ServeTest {
 protected:
  void SetUp() override {
    daemon_ = std::make_unique<test_support::DaemonProcess>(
        test_support::DaemonOptions{std::string(TERRACE_BIN_DIR) + "/terraced",
                                    directory_->path(),
                                    {"device.capacity=\"16MiB\"", "arena.slab=\"1MiB\"",
                                     "disk.capacity=\"64MiB\"", "http.listen=\"off\""}});
    const Status started = daemon_->start();
    ASSERT_TRUE(started.ok()) << started.message();
  }
  std::unique_ptr<WorkerServer> serve(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.end(), {"--socket", daemon_->socket_path()});
    return std::make_unique<WorkerServer>(model_path(), arguments);
  }
  json stats() {
    const auto text = client::fetch_stats_json(
        daemon_->socket_path(), std::chrono::steady_clock::now() + std::chrono::seconds(60));
    EXPECT_TRUE(text.has_value());
    return json::parse(text.value_or("{}"));
  }

  std::unique_ptr<test_support::DaemonProcess> daemon_;
};

TEST_F(ServeCached, TheSecondTurnHitsTheAnswerToTheFirst) {
  const auto server = serve();
  const auto fresh = serve({"--set", "cache=false"});
  // Of ids, since the texts of a random model do not become the same ids again.
  const json prompt = random_prompt(100, 21);
  json turn = {
      {"prompt", prompt}, {"max_tokens", 100}, {"ignore_eos", true}, {"return_token_ids", true}};
  const json ids = ids_of(server->post(completions, turn));
  json next = prompt;
  for (const json& id : ids) next.push_back(id);
  for (const json& id : random_prompt(10, 22)) next.push_back(id);
  turn["prompt"] = next;
  const json second = server->post(completions, turn).json();
  // All full blocks of the first turn but for its last token, whose KV nobody needed.
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), 192);
  EXPECT_EQ(second["choices"][0]["token_ids"], ids_of(fresh->post(completions, turn)));
  // The same again comes from the cache but for its last token.
  const json third = server->post(completions, turn).json();
  EXPECT_GE(third["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::size_t>(),
            next.size() - 1);
  EXPECT_EQ(third["choices"][0]["token_ids"], second["choices"][0]["token_ids"]);
}

TEST_F(ServeCached, SaltsKeepBlocksApartAndStoreFalseKeepsNone) {
  const auto server = serve();
  json body = {{"prompt", random_prompt(200, 31)}, {"max_tokens", 1}};
  const auto cached = [&](const char* salt, bool store) {
    body["cache_salt"] = salt;
    body["store"] = store;
    const ApiAnswer answer = server->post(completions, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached("a", false), 0);
  EXPECT_EQ(cached("a", true), 0);
  EXPECT_GE(cached("a", true), 192);
  EXPECT_GE(cached("a", false), 192);
  EXPECT_EQ(cached("b", true), 0);
  EXPECT_EQ(cached("", true), 0);
}

TEST_F(ServeCached, WhoHangsUpHoldsNoLease) {
  const auto server = serve();
  UniqueFd fd = server->begin(completions, {{"prompt", random_prompt(200, 41)},
                                            {"max_tokens", 3500},
                                            {"ignore_eos", true},
                                            {"stream", true}});
  ASSERT_TRUE(test_support::wait_until([&] { return stats().at("leases") > 0; }));
  fd.reset();
  EXPECT_TRUE(test_support::wait_until([&] { return stats().at("leases") == 0; }));
  EXPECT_LT(server->metric("terrace_worker_generated_tokens_total"), 3500) << "it ended by itself";
}

// What docs/worker.md has for ten minutes.
TEST_F(ServeCached, AMixedLoadWithHangUpsLeavesNothingBehind) {
  const auto server = serve();
  expect_load_passes(*server);
  EXPECT_TRUE(test_support::wait_until([&] { return stats().at("leases") == 0; }));
}

TEST_F(ServeCached, AnAnswerGoesOnWithoutTheDaemon) {
  const auto server = serve();
  json body = {{"prompt", random_prompt(200, 51)},
               {"max_tokens", 800},
               {"ignore_eos", true},
               {"return_token_ids", true}};
  const json expected = ids_of(server_->post(completions, body));
  const UniqueFd fd = server->begin(completions, body);
  ASSERT_TRUE(server->metric_becomes("terrace_worker_sequences{state=\"running\"}", 1));
  daemon_->kill();
  EXPECT_EQ(ids_of(read_answer(fd)), expected);
  EXPECT_EQ(ids_of(server->post(completions, body)), expected);
}

}  // namespace
}  // namespace terrace::inference
