# Compiler flags that every target gets: warnings, build types, sanitizers, ccache.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Dev: fast enough to run a model in the tests, with assertions and line numbers.
# Not in the cache: project() has put empty flags there, which a cached default would not replace.
if(TERRACE_SANITIZE)
  # Instrumented code takes twice as long to compile at -O2.
  set(CMAKE_CXX_FLAGS_DEV "-O1 -g1")
else()
  set(CMAKE_CXX_FLAGS_DEV "-O2 -g1")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_compile_definitions(TERRACE_VERSION="${PROJECT_VERSION}" TERRACE_BUILD_TYPE="${CMAKE_BUILD_TYPE}")

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    -Wno-missing-field-initializers)
if(TERRACE_WERROR)
  add_compile_options(-Werror)
endif()

# Kernels state each fused multiply-add themselves: the compiler must not add any, or two instruction
# sets would disagree in the last bit.
add_compile_options(-ffp-contract=off)

if(TERRACE_SANITIZE)
  add_compile_options(-fsanitize=${TERRACE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TERRACE_SANITIZE})
  # gcc's flow analysis sees the sanitizers' own branches and finds uninitialized values where there
  # are none; the builds without sanitizers keep the warning.
  add_compile_options(-Wno-maybe-uninitialized)
  if(TERRACE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(TERRACE_SANITIZE MATCHES "thread")
    # gcc warns that fences are not instrumented; the code uses none that matter to it.
    add_compile_options(-Wno-tsan)
  endif()
endif()
