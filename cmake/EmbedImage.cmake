# Writes OUT: a C++ source whose function FUNCTION returns the bytes of IMAGE, or none with EMPTY.
get_filename_component(name ${OUT} NAME_WE)
set(bytes "0")
set(length 0)
if(NOT EMPTY)
  file(READ ${IMAGE} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
endif()
string(REGEX REPLACE "::[^:]*$" "" space "${FUNCTION}")
string(REGEX REPLACE "^.*::" "" function "${FUNCTION}")
file(WRITE ${OUT} "// Generated from ${name}.
#include \"core/cuda/kernel_image.h\"

namespace ${space} {
namespace {
alignas(64) const unsigned char ${function}_bytes[] = {
${bytes}
};
}  // namespace
terrace::cuda::KernelImage ${function}();
terrace::cuda::KernelImage ${function}() { return {${function}_bytes, ${length}}; }
}  // namespace ${space}
")
