#include "served_files.h"

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "json_writer.h"
#include "serve/resource.h"
#include "serve/url.h"
#include "urls.h"
#include <fmt/format.h>

#include "espalier/native/regular_file.h"

namespace espalier::cli {
namespace {

// Opens the file if it may be served.
Result<RegularFile> open_served(const std::string& name, bool force) {
  if (auto ok = check_file_name(name, "input"); !ok) return propagate(ok);
  if (is_url(name)) {
    return fail(ErrorCode::kInvalidArgument,
                "view serves files of this machine; download the file first");
  }
  auto file = open_regular_file(name);
  // Read, not mapped: another program that truncates a mapped file would kill this one.
  if (const auto checkpoint = open_file(name, {.no_mmap = true}); file && !force && !checkpoint) {
    return propagate(checkpoint);
  }
  return file;
}

std::string list_of(const std::vector<ServedFile>& files) {
  std::string json = "[";
  for (const ServedFile& file : files) {
    fmt::format_to(std::back_inserter(json), R"({}{{"name":{},"url":{},"size":{}}})",
                   json.size() > 1 ? "," : "", json_quoted(file.name), json_quoted(file.url),
                   file.size);
  }
  return json + "]\n";
}

}  // namespace

tl::expected<std::vector<ServedFile>, Failure> add_files(serve::Site& site,
                                                         const std::vector<std::string>& files,
                                                         bool force) {
  std::vector<ServedFile> served;
  for (const std::string& file : files) {
    auto opened = open_served(file, force);
    if (!opened) return about(file, opened);
    // The number keeps files of the same name apart.
    const std::string folder = "files/" + std::to_string(served.size()) + "/";
    const std::string name = std::filesystem::path(file).filename().string();
    served.push_back({name, folder + serve::percent_encoded(name), opened->size()});
    site.add(folder + name, std::make_unique<serve::FileResource>("application/octet-stream",
                                                                  std::move(opened->file)));
  }
  site.add("files.json",
           std::make_unique<serve::TextResource>("application/json", list_of(served)));
  return served;
}

}  // namespace espalier::cli
