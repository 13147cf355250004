// One file on a server: its length, its version, and ranges of its bytes.
#ifndef ESPALIER_HTTP_HTTP_FILE_H_
#define ESPALIER_HTTP_HTTP_FILE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "espalier/error.h"
#include "files/os/pool.h"
#include "http/credentials.h"
#include "http/transfer.h"
#include "http/url.h"

namespace espalier::http {

struct HttpOptions {
  /// Polled about once a second while the program waits for the network; true ends all reads with
  /// kCancelled. May be called from several threads at once.
  std::function<bool()> is_cancelled = {};
  /// Seconds without a connection, or with less than 1 KiB each, after which a try has failed.
  unsigned timeout = 20;
  /// Tries after the first one, if a connection breaks off or the server is busy.
  unsigned retries = 3;
  /// The wait before the first of them; it doubles with each.
  std::chrono::milliseconds retry_delay{250};
  /// Bytes of the first request: the header and index of a file of 20 GiB, in raw chunks.
  std::uint64_t head_bytes = std::uint64_t{1} << 20;
  /// Sent to the scheme, host and port of the URL that is opened, and never where a redirect leads
  /// from there; see CredentialPolicy::make().
  std::vector<Header> headers = {};

  /// The options above with the timeout that the environment variable ESPALIER_HTTP_TIMEOUT says:
  /// links to some archives take minutes. kInvalidArgument if it says no number of seconds.
  [[nodiscard]] static Result<HttpOptions> from_environment();
};

/// A file that must not change while it is read. get() is thread-safe.
class HttpFile {
 public:
  /// The largest file to take whole from a server that does not send parts.
  static constexpr std::uint64_t kWholeFileBytes = std::uint64_t{16} << 20;

  /// Makes the first request: it tells the length and the version, and its bytes are kept.
  /// kFileNotFound; kIoError if the server does not answer, refuses, or does not support ranges;
  /// kCancelled; kInvalidArgument for a bad token in the environment, or a bad header.
  [[nodiscard]] static Result<std::unique_ptr<HttpFile>> open(const Url& url,
                                                              const MakeTransfer& make_transfer,
                                                              const HttpOptions& options);

  std::uint64_t size() const { return version_->size; }
  /// The first bytes of the file, which get() need not be asked for.
  const std::vector<std::byte>& head() const { return head_; }

  /// Returns exactly these bytes, which lie in the file. Every response is compared with the first
  /// one: kFileChanged if the server reports another version or length. Other errors as above.
  [[nodiscard]] Result<std::vector<std::byte>> get(const ByteRange& range);

  bool is_cancelled() const { return options_.is_cancelled && options_.is_cancelled(); }

 private:
  /// What identifies the bytes: parts of a file that is replaced meanwhile do not fit together.
  struct Version {
    std::uint64_t size = 0;
    std::string etag;
    std::string modified;
  };
  /// Why a try failed.
  struct Problem {
    Error error;
    bool is_transient = false;
    bool is_timeout = false;
    /// The server does not let us have the file at this URL.
    bool is_refused = false;
    /// The wait that the server asks for.
    std::chrono::seconds wait{};
  };
  template <class T>
  using Attempt = tl::expected<T, Problem>;
  using Bytes = std::vector<std::byte>;

  HttpFile(Url url, CredentialPolicy credentials, const MakeTransfer& make_transfer,
           HttpOptions options);

  Attempt<Bytes> attempt(const Url& start, const ByteRange& range);
  Attempt<Url> follow(const Url& from, const Response& response) const;
  Attempt<Bytes> accept(Response response, const Url& url, const ByteRange& range);
  Attempt<Bytes> accept_part(Response response, const ByteRange& range);
  Attempt<Bytes> accept_whole(Response response);
  Attempt<Bytes> accept_nothing(const Response& response, const ByteRange& range);
  /// That the response is of the first one's version; or it is the first, and is pinned.
  Attempt<Version> check_version(const Response& response, std::optional<std::uint64_t> size) const;
  tl::unexpected<Problem> failed_transfer(const Response& response) const;
  tl::unexpected<Problem> refused(const Response& response, const Url& url) const;
  std::uint64_t body_limit(long status, const ResponseHeaders& headers,
                           const ByteRange& range) const;
  [[nodiscard]] Result<void> wait(std::chrono::milliseconds time) const;

  Url current_url();
  void set_current_url(const Url& url);

  /// More connections to one server get no more bytes through, and some servers refuse them.
  static constexpr std::ptrdiff_t kMaxConnections = 8;

  const Url url_;
  const CredentialPolicy credentials_;
  const HttpOptions options_;
  std::optional<Version> version_;
  Bytes head_;
  std::counting_semaphore<kMaxConnections> connections_{kMaxConnections};
  Pool<Transfer> transfers_;
  std::mutex mutex_;
  /// Where the redirects ended, so that later requests need not follow them.
  Url current_;
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_HTTP_FILE_H_
