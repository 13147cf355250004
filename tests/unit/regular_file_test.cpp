#include "files/os/regular_file.h"

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

namespace fs = std::filesystem;

TEST_CASE("files below a folder are opened without following links") {
  const testing::TemporaryFolder outside;
  std::ofstream(outside / "secret") << "secret";
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "d/e");
  std::ofstream(folder / "d/e/file") << "12345";
  fs::create_directory_symlink(outside.path(), folder / "link");
  fs::create_symlink(outside / "secret", folder / "d/secret");
  const auto found = open_regular_file_below(folder.path(), "d/e/file");
  REQUIRE(found);
  CHECK(found->size() == 5);
  for (const char* name : {"link/secret", "d/secret", "d/e/file/x"}) {
    CAPTURE(name);
    const auto file = open_regular_file_below(folder.path(), name);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == ErrorCode::kNotARegularFile);
    CHECK(file.error().message.find("cp -rL") != std::string::npos);
  }
  for (const char* name : {"d/none", "none/file"}) {
    CAPTURE(name);
    const auto file = open_regular_file_below(folder.path(), name);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == ErrorCode::kFileNotFound);
  }
  const auto is_folder = open_regular_file_below(folder.path(), "d/e");
  REQUIRE_FALSE(is_folder);
  CHECK(is_folder.error().code == ErrorCode::kNotARegularFile);
}

}  // namespace
}  // namespace espalier
