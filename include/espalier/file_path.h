// The path of a file: what functions that open and save files take, without <filesystem>.
//
//   auto file = CheckpointFile::open("run.espalier");
//   auto other = CheckpointFile::open(std::filesystem::path("runs") / "1.espalier");
//   const std::filesystem::path step = dir.path(100);
#ifndef ESPALIER_FILE_PATH_H_
#define ESPALIER_FILE_PATH_H_

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace espalier {

/// std::filesystem::path, or a class like it whose native() is a text of the system's encoding.
template <class Path>
concept PathClass = requires(const Path& path) {
  { path.native() } -> std::same_as<const typename Path::string_type&>;
  { path.parent_path() } -> std::same_as<Path>;
}
&&std::same_as<typename Path::string_type, std::string>;

/// std::filesystem::directory_entry, or a class like it.
template <class Entry>
concept PathEntry = requires(const Entry& entry) {
  requires PathClass<std::remove_cvref_t<decltype(entry.path())>>;
};

/// Text or a std::filesystem::path becomes one where a function takes it, and it becomes a
/// std::filesystem::path where one is needed. Paths with a NUL are refused (kInvalidArgument) by
/// what opens or saves them, because the system would take another file.
class FilePath {
 public:
  FilePath() = default;
  FilePath(std::string path) : text_(std::move(path)) {}
  FilePath(std::string_view path) : text_(path) {}
  FilePath(const char* path) : text_(path) {}
  template <PathClass Path>
  FilePath(const Path& path) : text_(path.native()) {}
  template <PathEntry Entry>
  FilePath(const Entry& entry) : text_(entry.path().native()) {}

  /// The path as the system takes it.
  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }
  const char* c_str() const& { return text_.c_str(); }
  const char* c_str() && = delete;  // It would dangle.

  template <PathClass Path>
  operator Path() const {
    return Path(text_);
  }

  friend bool operator==(const FilePath&, const FilePath&) = default;
  template <PathClass Path>
  friend bool operator==(const FilePath& a, const Path& b) {
    return a.text_ == b.native();
  }

 private:
  std::string text_;
};

}  // namespace espalier

#endif  // ESPALIER_FILE_PATH_H_
