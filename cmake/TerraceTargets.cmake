# How a library, a program and a test are declared. Every folder of sources declares itself with these.

include(GNUInstallDirs)
include(GoogleTest)

# terrace_library(NAME SOURCES file... [DEPENDS target...] [PRIVATE_DEPENDS target...])
# A static library `terrace_NAME`. Sources include each other as "folder/file.h" from the root.
function(terrace_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(terrace_${name} STATIC ${ARG_SOURCES})
  if(TERRACE_UNITY)
    set_target_properties(terrace_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  target_include_directories(terrace_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(terrace_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
endfunction()

# terrace_program(NAME SOURCES file... [DEPENDS target...])
# An installed program, built into <build>/bin.
function(terrace_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
endfunction()

# terrace_test(NAME SOURCES file... [DEPENDS target...] [TIMEOUT seconds])
# A GoogleTest program whose cases ctest runs one by one. Tests find the read-only material beside the
# checkout through TERRACE_SHARED_DIR and skip where it is absent.
function(terrace_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(TERRACE_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  # A test's own code is long and runs briefly: what is optimized is what it tests. Sanitizers make
  # the optimizer take several times as long.
  if(TERRACE_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Dev")
    target_compile_options(${name} PRIVATE -O1)
  endif()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    TERRACE_SHARED_DIR="${CMAKE_SOURCE_DIR}/../shared"
    TERRACE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
