#include "cli/view/served_files.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"
#include "files/open/checkpoint_folder.h"
#include "files/os/regular_file.h"
#include "serve/resource.h"
#include "serve/url.h"

namespace espalier::cli {
namespace {

// A file, and the further files in its folder, or below it, that have bytes of the same checkpoint.
struct Opened {
  RegularFile file;
  std::filesystem::path folder;
  std::string name;
  std::string title;  // that of the folder, if files have the same names in all of them
  std::vector<std::pair<std::string, RegularFile>> siblings;
  std::vector<std::string> below;
};

// Whether a name in a checkpoint of this format makes a file a part of it. Its opener reads some of
// them, such as the nodes of a database, and others when it puts a tensor together: no chunk says
// so.
bool has_parts_by_name(const FormatInfo& format) {
  constexpr std::string_view kFormats[] = {"orbax", "tensorflow", "onnx"};
  return std::find(std::begin(kFormats), std::end(kFormats), format.name) != std::end(kFormats);
}

// Opens the file, and those that belong to it, if it may be served. Nothing else in its folder is
// served.
Result<Opened> open_served(const std::string& name, bool force) {
  if (auto ok = check_file_name(name, "input"); !ok) return propagate(ok);
  if (is_url(name)) {
    return fail(ErrorCode::kInvalidArgument,
                "view serves files of this machine; download the file first");
  }
  const auto path = file_to_open(name);
  if (!path) return propagate(path);
  auto file = open_regular_file(*path);
  if (!file) return propagate(file);
  Opened opened{std::move(*file), path->parent_path(), path->filename().string(), {}, {}, {}};
  // Read, not mapped: another program that truncates a mapped file would kill this one.
  const auto checkpoint = open_file(name, {.no_mmap = true});
  if (!checkpoint) return force ? Result<Opened>(std::move(opened)) : propagate(checkpoint);
  const Catalog& catalog = checkpoint->checkpoint().catalog();
  if (catalog.format().name == "orbax") {
    std::error_code error;  // of a folder that is there
    const auto& folder = opened.folder;
    opened.title =
        std::filesystem::canonical(folder.empty() ? "." : folder, error).filename().string();
  }
  std::set<std::uint32_t> used;
  for (const auto records : {catalog.tables().chunks, catalog.tables().bases}) {
    for (const ChunkRecord& record : records) used.insert(record.file);
  }
  for (std::uint32_t number = 1; number < catalog.files().size(); ++number) {
    const FileEntry& entry = catalog.files()[number];
    if (entry.name.empty() || entry.maker || entry.problem) continue;
    // A checkpoint can name any file beside it: only one that turned out to be a part is served.
    if (!used.contains(number) && entry.checksums.empty() && !has_parts_by_name(catalog.format())) {
      continue;
    }
    auto sibling = open_regular_file_below(opened.folder, entry.name);
    if (!sibling) {
      // One that Orbax may have, and has not.
      if (entry.length == 0) continue;
      return propagate(sibling);
    }
    // There may be more than a program can keep open.
    if (entry.name.find('/') != std::string::npos) {
      opened.below.push_back(entry.name);
    } else {
      opened.siblings.emplace_back(entry.name, std::move(*sibling));
    }
  }
  return opened;
}

std::unique_ptr<serve::FileResource> resource_of(RegularFile file) {
  return std::make_unique<serve::FileResource>("application/octet-stream", std::move(file.file));
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
    std::string folder = "files/" + std::to_string(served.size()) + "/";
    std::string url = folder;
    std::string title;
    if (!opened->title.empty()) {
      title = opened->title + "/";
      folder += title;
      url += serve::percent_encoded(opened->title) + "/";
    }
    served.push_back(
        {title + opened->name, url + serve::percent_encoded(opened->name), opened->file.size()});
    site.add(folder + opened->name, resource_of(std::move(opened->file)));
    for (auto& [name, sibling] : opened->siblings) {
      site.add(folder + name, resource_of(std::move(sibling)));
    }
    for (std::string& name : opened->below) {
      std::string at = folder + name;
      site.add_live(std::move(at),
                    [below = opened->folder,
                     name = std::move(name)]() -> Result<std::shared_ptr<const serve::Resource>> {
                      auto part = open_regular_file_below(below, name);
                      if (!part) return propagate(part);
                      return std::shared_ptr<const serve::Resource>(resource_of(std::move(*part)));
                    });
    }
  }
  site.add("files.json",
           std::make_unique<serve::TextResource>("application/json", list_of(served)));
  return served;
}

}  // namespace espalier::cli
