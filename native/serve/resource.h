// Something that can be served: bytes, whole or in part.
#ifndef ESPALIER_SERVE_RESOURCE_H_
#define ESPALIER_SERVE_RESOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/native/regular_file.h"

namespace espalier::serve {

/// Bytes under a name. Const use is thread-safe.
class Resource {
 public:
  /// How the bytes are at the moment. The tag is an ETag with its quotes, or empty: equal tags mean
  /// equal bytes.
  struct State {
    std::uint64_t size = 0;
    std::string tag;
  };

  /// `content_type` is a value for the field of that name.
  explicit Resource(std::string content_type) : content_type_(std::move(content_type)) {}
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;
  virtual ~Resource() = default;

  const std::string& content_type() const { return content_type_; }

  /// kIoError if the system does not tell.
  virtual Result<State> state() const = 0;

  /// Copies bytes from `offset` on to `out`, as many as it holds or fewer, but at least one; `out`
  /// is not empty. kFileChanged if there are none any more, kIoError.
  virtual Result<std::size_t> read(std::uint64_t offset, MutableByteSpan out) const = 0;

  /// The same bytes, gzipped; null if they are to be had as they are alone.
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

  Result<State> state() const override;
  Result<std::size_t> read(std::uint64_t offset, MutableByteSpan out) const override;

 private:
  std::string text_;
};

/// An open file, which is read as it is asked for and never mapped: one that somebody cuts short
/// meanwhile is then an error of a request, and not the end of the program. The tag is of the
/// file's identity, size and time of change, so that a reader who asks for one part after the other
/// notices a change between them.
class FileResource : public Resource {
 public:
  FileResource(std::string content_type, FileDescriptor file)
      : Resource(std::move(content_type)), file_(std::move(file)) {}

  Result<State> state() const override;
  Result<std::size_t> read(std::uint64_t offset, MutableByteSpan out) const override;

 private:
  FileDescriptor file_;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_RESOURCE_H_
