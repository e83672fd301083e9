// The files of the page, as they were when the daemon was built.
#pragma once

#include <span>
#include <string_view>

namespace terrace::daemon {

struct PageFile {
  std::string_view path;  // "/page.css"
  std::string_view bytes;
};

std::span<const PageFile> page_files();

}  // namespace terrace::daemon
