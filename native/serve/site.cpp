#include "serve/site.h"

#include <array>
#include <cstdint>
#include <map>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "files/os/out_of_memory.h"
#include "files/os/posix.h"
#include "files/os/regular_file.h"

namespace espalier::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFolderBytes = 64 << 20;

// The extension of gzipped copies.
constexpr std::string_view kCopy = ".gz";

// Browsers refuse scripts, styles and modules with a wrong type, because the server sends nosniff.
std::string content_type_of(const fs::path& file) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".wasm", "application/wasm"},
      {".json", "application/json"},
      {".map", "application/json"},
      {".txt", "text/plain; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
  }};
  const std::string extension = file.extension().string();
  for (const auto& [ending, type] : kTypes) {
    if (extension == ending) return std::string(type);
  }
  return "application/octet-stream";
}

// Reads the whole file, which may have at most `limit` bytes.
Result<std::string> read_whole(const fs::path& path, std::uint64_t limit) {
  auto opened = open_regular_file(path);
  if (!opened) return propagate(opened);
  if (opened->size() > limit) {
    return fail(ErrorCode::kLimitExceeded, "the folder of the page holds more than 64 MiB");
  }
  std::string text(static_cast<std::size_t>(opened->size()), '\0');
  const FileResource file({}, std::move(opened->file));
  const auto bytes = std::as_writable_bytes(std::span(text));
  for (std::size_t done = 0; done < bytes.size();) {
    const auto n = file.read(done, bytes.subspan(done));
    if (!n) return propagate(n);
    done += *n;
  }
  return text;
}

}  // namespace

void Site::add(std::string name, std::unique_ptr<const Resource> resource) {
  add_live(std::move(name), [fixed = std::shared_ptr(std::move(resource))] { return fixed; });
}

void Site::add_live(std::string name, Maker make) {
  makers_.try_emplace(std::move(name), std::move(make));
}

Result<void> Site::add_folder(const fs::path& folder) try {
  const auto failed = [](const std::error_code& error) {
    return fail_with_errno(error.value(), "list the folder");
  };
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  if (error) return failed(error);
  std::uint64_t left = kMaxFolderBytes;
  std::map<std::string, std::string> files;
  for (const fs::recursive_directory_iterator end; entry != end; entry.increment(error)) {
    if (error) return failed(error);
    if (!fs::is_regular_file(entry->symlink_status(error))) continue;
    auto text = read_whole(entry->path(), left);
    if (!text) return propagate(text);
    left -= text->size();
    files.emplace(entry->path().lexically_relative(folder).generic_string(), std::move(*text));
  }
  if (error) return failed(error);
  for (auto& [name, text] : files) {
    if (name.ends_with(kCopy) && files.contains(name.substr(0, name.size() - kCopy.size()))) {
      continue;
    }
    const std::string type = content_type_of(name);
    auto resource = std::make_unique<TextResource>(type, std::move(text));
    if (const auto copy = files.find(name + std::string(kCopy)); copy != files.end()) {
      resource->set_gzipped(std::make_unique<TextResource>(type, std::move(copy->second)));
    }
    add(name, std::move(resource));
  }
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

bool Site::has(std::string_view name) const { return makers_.contains(name); }

Result<std::shared_ptr<const Resource>> Site::find(std::string_view name) const {
  const auto found = makers_.find(name);
  if (found == makers_.end()) return nullptr;
  return found->second();
}

}  // namespace espalier::serve
