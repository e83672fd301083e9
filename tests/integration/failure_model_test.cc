// docs/failure_model.md says which test guards what. A test that was renamed or removed must not go
// on being named.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace terrace::integration {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// "Suite.Name" of every test in the tree.
std::set<std::string> all_tests(const std::filesystem::path& directory) {
  const std::regex declaration(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\))");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".cc") continue;
    const std::string text = read(entry.path());
    for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end;
         ++match)
      names.insert((*match)[1].str() + "." + (*match)[2].str());
  }
  return names;
}

TEST(FailureModel, NamesTestsThatExist) {
  const std::filesystem::path source = TERRACE_SOURCE_DIR;
  const std::set<std::string> tests = all_tests(source / "tests");
  const std::string document = read(source / "docs" / "failure_model.md");
  const std::regex name(R"(\b([A-Z]\w+\.[A-Z]\w+)\b)");
  std::size_t named = 0;
  for (std::sregex_iterator match(document.begin(), document.end(), name), end; match != end;
       ++match) {
    ++named;
    EXPECT_TRUE(tests.contains((*match)[1].str())) << (*match)[1].str() << " is no test";
  }
  EXPECT_GE(named, 30u);
}

}  // namespace
}  // namespace terrace::integration
