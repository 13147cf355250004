#include "cli/usage/version.h"

#include <fmt/format.h>
#include <zstd.h>

#include "espalier/format/header.h"
#include "espalier/version.h"

namespace espalier::cli {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

}  // namespace

std::string version_text() {
  return fmt::format("espalier {}\nfile format {}.{}\nzstd {}\n{} build with {} for {}\n",
                     ESPALIER_VERSION, kVersionMajor, kVersionMinor, ZSTD_versionString(),
                     ESPALIER_BUILD_TYPE, kCompiler, ESPALIER_SYSTEM);
}

}  // namespace espalier::cli
