#include "cli/view/served_folder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/selection/natural_order.h"
#include "cli/terminal/json_writer.h"
#include "espalier/base/stars.h"
#include "espalier/foreign/format_names.h"
#include "espalier/foreign/formats.h"
#include "files/open/checkpoint_folder.h"
#include "files/os/regular_file.h"
#include "serve/resource.h"
#include "serve/url.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 10'000;
constexpr int kMostDepth = 2;
// Where the site has the files.
constexpr std::string_view kPrefix = "files/0/";

// Whether a checkpoint may be opened by a file of this name. Those of Orbax are folders of their
// own, with files of any name.
bool is_opened(std::string_view name) {
  const auto formats = all_formats();
  return std::any_of(formats.begin(), formats.end(), [&](const FormatInfo* format) {
    return format->name != "orbax" && is_named_as(*format, name);
  });
}

// Whether it may be a part of a checkpoint in several files.
bool is_part(std::string_view name) {
  if (name.starts_with('.')) return false;
  const auto formats = all_formats();
  // The second ones are those of TensorFlow.
  return matches_stars("*.data-*-of-*", name) ||
         std::any_of(formats.begin(), formats.end(), [&](const FormatInfo* format) {
           return !format->part_ending.empty() && name.ends_with(format->part_ending);
         });
}

struct Listed {
  std::string path;  // below the folder; any bytes
  std::uint64_t size = 0;
  std::int64_t time = 0;  // of the last write, in milliseconds
};

std::int64_t milliseconds_of(const WriteState& state) {
  return state.seconds * 1000 + state.nanoseconds / 1'000'000;
}

// The files of the folder as they are now. Whatever cannot be read is left out: it may be gone.
std::vector<Listed> list_files(const fs::path& folder) {
  std::vector<Listed> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    const fs::file_status status = entry->symlink_status(ignored);
    if (fs::is_directory(status)) {
      if (entry.depth() + 1 >= kMostDepth || name.starts_with('.')) {
        entry.disable_recursion_pending();
      }
      continue;
    }
    if (!fs::is_regular_file(status) || !(is_opened(name) || is_part(name))) continue;
    const auto file = open_regular_file(entry->path());
    if (!file) continue;
    found.push_back({entry->path().lexically_relative(folder).generic_string(), file->size(),
                     milliseconds_of(file->opened)});
    if (found.size() == kMostFiles) break;
  }
  std::sort(found.begin(), found.end(),
            [](const Listed& a, const Listed& b) { return compare_naturally(a.path, b.path) < 0; });
  return found;
}

// A file of the folder as it is now.
Result<std::shared_ptr<const serve::Resource>> open_listed(const fs::path& folder,
                                                           const std::string& path) {
  // A file that was listed may be a link by now, or be in a folder that is one: it may lead
  // anywhere.
  fs::path part = folder;
  for (const fs::path& name : fs::path(path)) {
    part /= name;
    std::error_code ignored;
    if (fs::is_symlink(part, ignored)) {
      return fail(ErrorCode::kFileChanged, "the file was replaced by a symbolic link");
    }
  }
  auto file = open_regular_file(part);
  if (!file) return propagate(file);
  return std::make_shared<const serve::FileResource>("application/octet-stream",
                                                     std::move(file->file));
}

std::string url_of(std::string_view path) {
  std::string url(kPrefix);
  for (const char c : path) {
    url += c == '/' ? std::string(1, c) : serve::percent_encoded({&c, 1});
  }
  return url;
}

// The list of the folder's files as they are now. Adds those that are new to the site.
std::shared_ptr<const serve::Resource> make_list(serve::Site& site, const fs::path& folder) {
  std::string text = "[";
  for (const Listed& file : list_files(folder)) {
    const std::string name = std::string(kPrefix) + file.path;
    if (!site.has(name)) {
      site.add_live(name, [folder, path = file.path] { return open_listed(folder, path); });
    }
    fmt::format_to(std::back_inserter(text), R"({}{{"name":{},"url":{},"size":{},"time":{}}})",
                   text.size() > 1 ? "," : "", json_quoted(file.path),
                   json_quoted(url_of(file.path)), file.size, file.time);
  }
  return std::make_shared<const serve::TextResource>("application/json", text + "]\n");
}

}  // namespace

bool is_folder_of_checkpoints(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  if (file_to_open(folder)) return false;  // It is a checkpoint itself.
  const auto files = list_files(folder);
  const auto formats = all_formats();
  const bool is_one = std::any_of(files.begin(), files.end(), [&](const Listed& file) {
    const bool is_here = file.path.find('/') == std::string::npos;
    return is_here && std::any_of(formats.begin(), formats.end(), [&](const FormatInfo* format) {
             return format->needs_folder && is_named_as(*format, file.path);
           });
  });
  return !is_one && std::any_of(files.begin(), files.end(),
                                [](const Listed& file) { return is_opened(file.path); });
}

void add_live_folder(serve::Site& site, const fs::path& folder) {
  // The first look adds the files, so that links to them work before the list is fetched.
  make_list(site, folder);
  site.add_live("files.json", [&site, folder] { return make_list(site, folder); });
}

}  // namespace espalier::cli
