// Bytes that can be served, whole or in part.
#ifndef ESPALIER_SERVE_RESOURCE_H_
#define ESPALIER_SERVE_RESOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "files/os/regular_file.h"

namespace espalier::serve {

/// Bytes under a name. Const use is thread-safe.
class Resource {
 public:
  /// The current size and version of the bytes. The tag is an ETag with its quotes, or empty; equal
  /// tags mean equal bytes.
  struct State {
    std::uint64_t size = 0;
    std::string tag;
  };

  /// `content_type` is the value of the Content-Type field.
  explicit Resource(std::string content_type) : content_type_(std::move(content_type)) {}
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;
  virtual ~Resource() = default;

  const std::string& content_type() const { return content_type_; }

  /// kIoError if the system call fails.
  [[nodiscard]] virtual Result<State> state() const = 0;

  /// Copies bytes from `offset` on to `out`, which must not be empty: at least one, at most as many
  /// as it holds. kFileChanged if the file now ends before `offset`; kIoError.
  [[nodiscard]] virtual Result<std::size_t> read(std::uint64_t offset,
                                                 MutableByteSpan out) const = 0;

  /// The same bytes, gzipped; null if there is no gzipped copy.
  const Resource* gzipped() const { return gzipped_.get(); }
  void set_gzipped(std::unique_ptr<const Resource> gzipped) { gzipped_ = std::move(gzipped); }

 private:
  std::string content_type_;
  std::unique_ptr<const Resource> gzipped_;
};

/// A text in memory.
class TextResource : public Resource {
 public:
  TextResource(std::string content_type, std::string text)
      : Resource(std::move(content_type)), text_(std::move(text)) {}

  [[nodiscard]] Result<State> state() const override;
  [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, MutableByteSpan out) const override;

 private:
  std::string text_;
};

/// An open file. It is read on demand and never mapped, so a file truncated meanwhile is an error
/// of one request and does not kill the program. The tag depends on the file's identity, size and
/// change time, so a client that reads it in parts notices a change between them.
class FileResource : public Resource {
 public:
  FileResource(std::string content_type, FileDescriptor file)
      : Resource(std::move(content_type)), file_(std::move(file)) {}

  [[nodiscard]] Result<State> state() const override;
  [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, MutableByteSpan out) const override;

 private:
  FileDescriptor file_;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_RESOURCE_H_
