#include "storage/policy/reuse_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

namespace terrace::storage {
namespace {

struct Node {
  struct {
    Node *left = nullptr, *right = nullptr;
  } links;
  ReuseState state;
  std::uint32_t depth = 0;
  bool in = false;
};
struct Access {
  auto& links(Node& node) const { return node.links; }
  ReuseState state(const Node& node) const { return node.state; }
  std::uint32_t depth(const Node& node) const { return node.depth; }
};

// Beside the plainest way to find the same.
class ReuseOrderTest : public testing::Test {
 protected:
  void begin_request() {
    request_ = model_.begin_request();
    order_.advance([&](Node& node) {
      EXPECT_FALSE(model_.remembers(node.state.request));
      EXPECT_TRUE(node.in);
      node.in = false;
    });
  }
  void use(Node& node, std::uint32_t depth) {
    if (node.in) order_.erase(node);
    node.depth = depth;
    const auto uses = static_cast<std::uint8_t>(std::min<int>(max_uses, node.state.uses + 1));
    model_.use(node.state, request_, uses, depth % 3 == 0);
    order_.insert(node);
    node.in = true;
  }
  void erase(Node& node) {
    order_.erase(node);
    node.in = false;
  }
  auto age_key(const Node& node) const {
    return std::tuple(node.state.request, -static_cast<int>(node.depth));
  }
  auto rank_key(const Node& node) const {
    return std::tuple_cat(std::tuple(model_.index().rank(model_.cell(node.state))), age_key(node));
  }
  template <typename Key>
  void expect_least(Node* found, Key key) {
    std::size_t in = 0;
    bool any_less = false;
    for (const Node& node : nodes_) {
      if (!node.in) continue;
      ++in;
      if (found && key(node) < key(*found)) any_less = true;
    }
    EXPECT_EQ(in, order_.size());
    EXPECT_EQ(found != nullptr, in > 0);
    EXPECT_FALSE(any_less);
    EXPECT_TRUE(!found || found->in);
  }
  void check() {
    expect_least(order_.oldest(), [&](const Node& node) { return age_key(node); });
    expect_least(order_.lowest(), [&](const Node& node) { return rank_key(node); });
  }

  ReuseModel model_;
  ReuseOrder<Node, Access> order_{model_};
  std::vector<Node> nodes_;
  RequestNumber request_ = 0;
};

TEST_F(ReuseOrderTest, AgreesWithLookingAtEveryNode) {
  std::mt19937_64 random(3);
  nodes_.resize(400);
  for (int step = 0; step < 20'000; ++step) {
    begin_request();
    const std::size_t count = random() % 4;
    // How many are new is known before the uses here; see below for the other case.
    for (std::size_t i = 0; i < random() % 20; ++i) model_.add_new_block(request_);
    for (std::size_t i = 0; i < count; ++i) {
      // Some are used all the time, some hardly ever.
      const double draw = static_cast<double>(random() % 1000) / 1000;
      use(nodes_[static_cast<std::size_t>(draw * draw * draw * 400)],
          static_cast<std::uint32_t>(i));
    }
    if (step % 3 == 0)
      if (Node* node = step % 2 ? order_.lowest() : order_.oldest()) erase(*node);
    // Sometimes much time passes.
    if (random() % 500 == 0)
      for (int i = 0; i < 3000; ++i) begin_request();
    if (step % 10 == 0) check();
    if (HasFailure()) return;
  }
}

TEST_F(ReuseOrderTest, NoticesThatARequestHasGrown) {
  nodes_.resize(40);
  for (std::size_t i = 0; i < nodes_.size(); i += 2) {
    begin_request();
    use(nodes_[i], 0);
    model_.add_new_block(request_);
    use(nodes_[i + 1], 1);
    if (i % 4 == 0)
      for (int blocks = 0; blocks < 9; ++blocks) model_.add_new_block(request_);
  }
  // By the time of the next edge at the latest.
  for (int i = 0; i < 64; ++i) begin_request();
  for (Node& node : nodes_)
    if (node.depth == 1) erase(node);
  for (int i = 0; i < 128; ++i) begin_request();
  while (order_.size() > 0) {
    check();
    erase(*order_.lowest());
    if (HasFailure()) return;
  }
}

TEST_F(ReuseOrderTest, AfterALongPauseAllIsForgottenInOrder) {
  nodes_.resize(50);
  for (Node& node : nodes_) {
    begin_request();
    use(node, 0);
  }
  for (std::uint32_t i = 0; i < 3 * remembered_requests; ++i) model_.begin_request();
  const Node* last = nullptr;
  order_.advance([&](Node& node) {
    EXPECT_TRUE(!last || last->state.request < node.state.request);
    last = &node;
    node.in = false;
  });
  EXPECT_EQ(order_.size(), 0u);
  begin_request();
  use(nodes_[3], 0);
  check();
}

TEST_F(ReuseOrderTest, ManyBranchesOfOneRequestStayQuick) {
  // A client may use as many branches as it likes at once. Found is then anything of the oldest.
  nodes_.resize(100'000);
  begin_request();
  for (Node& node : nodes_) use(node, static_cast<std::uint32_t>(&node - nodes_.data()) % 5);
  for (int i = 0; i < 200; ++i) begin_request();
  for (std::size_t left = nodes_.size(); left > 0; --left) {
    Node* const node = left % 2 ? order_.oldest() : order_.lowest();
    ASSERT_NE(node, nullptr);
    erase(*node);
  }
  EXPECT_EQ(order_.lowest(), nullptr);
  EXPECT_EQ(order_.oldest(), nullptr);
  begin_request();
  use(nodes_[0], 0);
  check();
}

}  // namespace
}  // namespace terrace::storage
