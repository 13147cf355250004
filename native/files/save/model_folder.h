// Replaces a model of several files by a new one.
#ifndef ESPALIER_FILES_SAVE_MODEL_FOLDER_H_
#define ESPALIER_FILES_SAVE_MODEL_FOLDER_H_

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "espalier/file_sink.h"
#include "espalier/save_options.h"
#include "espalier/sink.h"
#include "files/os/posix.h"
#include "files/save/shard_split.h"

namespace espalier {

/// The folder of a model, locked against other saves of models. At each moment its index is that of
/// one whole model, the old one or the new one, also if the process is killed:
///
/// 1. All new files are written beside those that they replace: see FileSink.
/// 2. The old files that they replace get a second name, and the old index is replaced by one that
///    has these names.
/// 3. The new files take their places, and then the new index.
/// 4. The old files that the new model does not have are removed, with their second names.
///
/// What a killed save left behind is removed by the next one. Not thread-safe.
class ModelFolder {
 public:
  /// Opens and locks it. `options` give `replace`, `sync`, `limits` and `ops`. kFolderInUse while
  /// another save holds the lock; kFileExists without `replace` if a file or an index of these
  /// names is there; kFileNotFound; kIoError. Where the file system has no locks, none is held.
  [[nodiscard]] static Result<ModelFolder> open(const std::filesystem::path& folder,
                                                ModelNames names, const SaveOptions& options);

  /// Begins a file of the new model. Errors of FileSink::create(), which does not follow a link: it
  /// may lead to a file that other models share, as in the cache of Hugging Face.
  [[nodiscard]] Result<FileSink> create(const std::string& name) const;

  const ModelNames& names() const { return names_; }

  struct NewFile {
    std::string name;
    /// Written, and not committed.
    FileSink sink;
  };
  /// Puts the new files into their places. `index` is empty for a model of one file, which needs
  /// none. After an error the old model is there, under its second names if need be. Call once.
  [[nodiscard]] Result<void> replace(std::vector<NewFile> files, const std::string& index);

 private:
  ModelFolder(std::filesystem::path path, ModelNames names, const SaveOptions& options)
      : path_(std::move(path)), names_(std::move(names)), options_(&options) {}

  Result<void> lock();
  Result<void> keep_old(const std::vector<NewFile>& files);
  Result<void> give_second_name(const std::string& name, const std::string& second);
  Result<void> write_index(const std::string& text) const;
  Result<void> remove_rest(const std::vector<NewFile>& files, bool has_index);
  FileOps& ops() const { return ops_or_system(options_->ops); }
  bool has(const std::string& name) const;

  std::filesystem::path path_;
  ModelNames names_;
  const SaveOptions* options_;
  FileDescriptor folder_;
  bool is_alone_ = false;
  std::string old_index_;
  std::vector<std::string> old_files_;
  std::map<std::string, std::string, std::less<>> second_names_;
};

/// The names of the files of the model that is there now: of its index, and of those that it names;
/// and of the one file. They need not be there.
std::vector<std::string> files_of_model(const std::filesystem::path& folder,
                                        const ModelNames& names, const Limits& limits);

/// Writes to a file that its owner commits, and counts its bytes.
class HeldSink final : public Sink {
 public:
  explicit HeldSink(FileSink& file) : file_(file) {}

  Result<bool> share(std::uint64_t offset, const ByteSource& source,
                     const Extent& extent) override {
    return file_.share(offset, source, extent);
  }
  Result<void> reserve(std::uint64_t length) override {
    length_ = length;
    return file_.reserve(length);
  }
  Result<bool> copy(std::uint64_t offset, const ByteSource& source, const Extent& extent) override {
    return file_.copy(offset, source, extent);
  }
  Result<void> write(std::uint64_t offset, ByteSpan bytes) override {
    return file_.write(offset, bytes);
  }
  Result<void> commit() override { return {}; }
  /// The length that was reserved.
  std::uint64_t length() const { return length_; }

 private:
  FileSink& file_;
  std::uint64_t length_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_MODEL_FOLDER_H_
