// Who may use the API.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/sha256.h"
#include "core/status.h"

namespace terrace::inference {

constexpr std::size_t max_api_keys = 1024;
constexpr std::size_t max_api_keys_bytes = 1 << 20;  // of their file

class ApiKeys {
 public:
  // Everybody may.
  ApiKeys() = default;
  // One key a line; blank lines and those that begin with # are none. failed_precondition for a
  // file that everybody may read, invalid_argument for one without a key, or with too many, or
  // too long, io_error if it cannot be read.
  static Result<ApiKeys> read(const std::string& path);

  bool required() const { return !digests_.empty(); }
  // Of the value of an Authorization header, "Bearer KEY" ("bearer", too). Takes the same time for
  // every wrong key.
  bool admit(std::string_view authorization) const;

 private:
  std::vector<Digest> digests_;
};

}  // namespace terrace::inference
