#include "served_folder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "json_writer.h"
#include "natural_order.h"
#include "serve/resource.h"
#include "serve/url.h"
#include <fmt/format.h>

#include "espalier/native/regular_file.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 10'000;
constexpr int kMostDepth = 2;
// Where the site has the files.
constexpr std::string_view kPrefix = "files/0/";

// What a page needs to open a checkpoint: the file, or the parts of one in several files.
constexpr std::array<std::string_view, 12> kEndings = {
    ".espalier", ".safetensors", ".gguf", ".pt",  ".pth",    ".bin",
    ".ckpt",     ".pkl",         ".npz",  ".npy", ".distcp", ".msgpack"};
constexpr std::string_view kIndex = ".index.json";
constexpr std::string_view kDistributed = ".metadata";

bool is_served(const std::string& name) {
  if (name == kDistributed) return true;
  return !name.starts_with('.') &&
         (name.ends_with(kIndex) ||
          std::any_of(kEndings.begin(), kEndings.end(),
                      [&](std::string_view ending) { return name.ends_with(ending); }));
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
    if (!fs::is_regular_file(status) || !is_served(name)) continue;
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

// The files that were read last stay open: a run has more files than a process has descriptors.
class OpenFiles {
 public:
  void keep(std::shared_ptr<const serve::FileResource> file) {
    const std::lock_guard lock(mutex_);
    files_.push_front(std::move(file));
    if (files_.size() > kMost) files_.pop_back();
  }

 private:
  static constexpr std::size_t kMost = 8;
  std::mutex mutex_;
  std::list<std::shared_ptr<const serve::FileResource>> files_;
};

// A file of the folder by its path: each request opens it, so one that is replaced is served as it
// is now. A request that began before fails then, as its tag would no longer be right.
class FolderFile : public serve::Resource {
 public:
  FolderFile(fs::path folder, const std::string& path, std::shared_ptr<OpenFiles> recent)
      : Resource("application/octet-stream"),
        folder_(std::move(folder)),
        path_(folder_ / path),
        recent_(std::move(recent)) {}

  [[nodiscard]] Result<State> state() const override {
    const std::lock_guard lock(mutex_);
    auto opened = open();
    if (!opened) return propagate(opened);
    auto state = (*opened)->state();
    if (state) tag_ = state->tag;
    return state;
  }

  [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, MutableByteSpan out) const override {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const serve::FileResource> file = file_.lock();
    if (!file) {
      auto opened = open();
      if (!opened) return propagate(opened);
      file = std::move(*opened);
      const auto state = file->state();
      if (!state) return propagate(state);
      if (state->tag != tag_) {
        return fail(ErrorCode::kFileChanged, "the file was replaced while it was read", offset);
      }
    }
    return file->read(offset, out);
  }

 private:
  Result<std::shared_ptr<const serve::FileResource>> open() const {
    // A file that was listed may be a link by now, or be in a folder that is one: it may lead
    // anywhere.
    for (fs::path part = path_; part != folder_; part = part.parent_path()) {
      std::error_code ignored;
      if (fs::is_symlink(part, ignored)) {
        return fail(ErrorCode::kFileChanged, "the file was replaced by a symbolic link");
      }
    }
    auto file = open_regular_file(path_);
    if (!file) return propagate(file);
    auto opened =
        std::make_shared<const serve::FileResource>(content_type(), std::move(file->file));
    file_ = opened;
    recent_->keep(opened);
    return opened;
  }

  fs::path folder_;
  fs::path path_;
  std::shared_ptr<OpenFiles> recent_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const serve::FileResource> file_;
  mutable std::string tag_;
};

// The list of the folder's files, made anew for each request.
class FolderList : public serve::Resource {
 public:
  FolderList(serve::Site& site, fs::path folder)
      : Resource("application/json"), site_(site), folder_(std::move(folder)) {}

  [[nodiscard]] Result<State> state() const override {
    const std::lock_guard lock(mutex_);
    text_ = "[";
    for (const Listed& file : list_files(folder_)) {
      const std::string name = std::string(kPrefix) + file.path;
      if (site_.find(name) == nullptr) {
        site_.add(name, std::make_unique<FolderFile>(folder_, file.path, recent_));
      }
      fmt::format_to(std::back_inserter(text_), R"({}{{"name":{},"url":{},"size":{},"time":{}}})",
                     text_.size() > 1 ? "," : "", json_quoted(file.path),
                     json_quoted(url_of(file.path)), file.size, file.time);
    }
    text_ += "]\n";
    return State{text_.size(), {}};
  }

  [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, MutableByteSpan out) const override {
    const std::lock_guard lock(mutex_);
    return serve::TextResource({}, text_).read(offset, out);
  }

 private:
  static std::string url_of(std::string_view path) {
    std::string url(kPrefix);
    for (const char c : path) {
      url += c == '/' ? std::string(1, c) : serve::percent_encoded({&c, 1});
    }
    return url;
  }

  serve::Site& site_;
  fs::path folder_;
  std::shared_ptr<OpenFiles> recent_ = std::make_shared<OpenFiles>();
  mutable std::mutex mutex_;
  mutable std::string text_;
};

}  // namespace

bool is_folder_of_checkpoints(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  const auto files = list_files(folder);
  const bool is_one = std::any_of(files.begin(), files.end(), [](const Listed& file) {
    return file.path == kDistributed ||
           (file.path.ends_with(kIndex) && file.path.find('/') == std::string::npos);
  });
  return !files.empty() && !is_one;
}

Result<void> add_live_folder(serve::Site& site, const fs::path& folder) {
  auto list = std::make_unique<FolderList>(site, folder);
  // The first look adds the files, so that links to them work before the list is fetched.
  if (const auto state = list->state(); !state) return propagate(state);
  site.add("files.json", std::move(list));
  return {};
}

}  // namespace espalier::cli
