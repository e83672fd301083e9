# Writes OUT: a C++ source whose page_files() returns the FILES (a list of paths, separated by '|'), each
# under its name.
string(REPLACE "|" ";" files "${FILES}")
set(arrays "")
set(entries "")
set(number 0)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "// ${name}\nconstexpr unsigned char file_${number}[] = {\n${bytes}\n};\n")
  string(APPEND entries "      {\"/${name}\", {reinterpret_cast<const char*>(file_${number}), ${length}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "// Generated from the files of the page.
#include \"cache_daemon/http/page_files.h\"

namespace terrace::daemon {
namespace {
${arrays}}  // namespace

std::span<const PageFile> page_files() {
  static const PageFile files[] = {
${entries}  };
  return files;
}

}  // namespace terrace::daemon
")
