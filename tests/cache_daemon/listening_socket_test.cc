#include "cache_daemon/listening_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace terrace::daemon {
namespace {

class ListeningSocketTest : public ::testing::Test {
 protected:
  test_support::TempDir directory_;
  const std::string path_ = directory_.file("socket");

  // What a daemon that was killed leaves behind.
  void leave_stale_socket() {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(fd.get(), 1), 0);
  }
};

TEST_F(ListeningSocketTest, IsForOwnerAndGroupOnlyAndGoesAway) {
  {
    const auto socket = ListeningSocket::open(path_, {});
    ASSERT_TRUE(socket.has_value()) << socket.error().message();
    struct stat info;
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0660u);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ListeningSocketTest, MakesItsFolder) {
  const auto socket = ListeningSocket::open(directory_.file("a/b/socket"), {});
  EXPECT_TRUE(socket.has_value()) << socket.error().message();
}

TEST_F(ListeningSocketTest, OneThatIsListenedOnIsLeftAlone) {
  const auto first = ListeningSocket::open(path_, {});
  ASSERT_TRUE(first.has_value());
  const auto second = ListeningSocket::open(path_, {});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::already_exists);
  EXPECT_NE(second.error().message().find("in use"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListeningSocketTest, AStaleOneIsReplaced) {
  leave_stale_socket();
  const auto socket = ListeningSocket::open(path_, {});
  EXPECT_TRUE(socket.has_value()) << socket.error().message();
}

TEST_F(ListeningSocketTest, WhatIsNoSocketIsLeftAlone) {
  std::ofstream(path_) << "precious";
  const auto socket = ListeningSocket::open(path_, {});
  ASSERT_FALSE(socket.has_value());
  EXPECT_EQ(socket.error().code(), StatusCode::already_exists);
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

TEST_F(ListeningSocketTest, AnothersSocketAtThePathIsNotRemoved) {
  auto first = ListeningSocket::open(path_, {});
  ASSERT_TRUE(first.has_value());
  std::filesystem::remove(path_);
  const auto second = ListeningSocket::open(path_, {});
  ASSERT_TRUE(second.has_value());
  first->close();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListeningSocketTest, APathTooLongForAnAddressIsRefused) {
  const auto socket = ListeningSocket::open(directory_.file(std::string(120, 'x')), {});
  ASSERT_FALSE(socket.has_value());
  EXPECT_EQ(socket.error().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace terrace::daemon
