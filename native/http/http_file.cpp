#include "http/http_file.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <new>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "files/os/out_of_memory.h"

namespace espalier::http {
namespace {

constexpr int kMaxRedirects = 10;
// If a server asks for a longer wait, the user decides.
constexpr std::chrono::seconds kLongestWait{10};

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string bytes_text(std::uint64_t begin, std::uint64_t end) {
  return "bytes " + std::to_string(begin) + "-" + std::to_string(end - 1);
}

Error error_of(ErrorCode code, std::string_view message, std::uint64_t offset = Error::kNoOffset) {
  return {code, offset, {}, message};
}

Error no_ranges(const std::string& how) {
  return error_of(ErrorCode::kIoError,
                  "the server does not support ranges (" + how +
                      "), so parts of the file cannot be read; download the file first");
}

Error changed(const std::string& how) {
  return error_of(ErrorCode::kFileChanged,
                  "the file changed on the server while it was read: " + how + "; run it again");
}

// A server may redirect to a URL of 60 KB.
std::string mention(const Url& url) {
  constexpr std::size_t kMaxBytes = 200;
  const std::string& text = url.shown;
  if (text.size() <= kMaxBytes) return text;
  return text.substr(0, kMaxBytes / 2) + "[...]" + text.substr(text.size() - kMaxBytes / 2);
}

Error interrupted() { return error_of(ErrorCode::kCancelled, "interrupted"); }

// Random, so that programs that failed together do not try again together.
std::chrono::milliseconds delay_before(unsigned attempt, std::chrono::milliseconds first) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto longest = first * (1 << std::min(attempt, 10u));
  return longest / 2 + longest * std::uniform_int_distribution<int>(0, 500)(random) / 1000;
}

}  // namespace

Result<HttpOptions> HttpOptions::from_environment() {
  HttpOptions options;
  const char* text = std::getenv("ESPALIER_HTTP_TIMEOUT");
  if (text == nullptr || *text == '\0') return options;
  const char* const last = text + std::string_view(text).size();
  const auto [end, error] = std::from_chars(text, last, options.timeout);
  if (error == std::errc() && end == last && options.timeout > 0 && options.timeout <= 3600) {
    return options;
  }
  return fail(ErrorCode::kInvalidArgument,
              "the variable ESPALIER_HTTP_TIMEOUT is not a number of seconds from 1 to 3600");
}

HttpFile::HttpFile(Url url, CredentialPolicy credentials, const MakeTransfer& make_transfer,
                   HttpOptions options)
    : url_(std::move(url)),
      credentials_(std::move(credentials)),
      options_(std::move(options)),
      transfers_(make_transfer),
      current_(url_) {}

Result<std::unique_ptr<HttpFile>> HttpFile::open(const Url& url, const MakeTransfer& make_transfer,
                                                 const HttpOptions& options) try {
  auto credentials = CredentialPolicy::make(url, options.headers);
  if (!credentials) return propagate(credentials);
  std::unique_ptr<HttpFile> file(
      new HttpFile(url, std::move(*credentials), make_transfer, options));
  auto head = file->get({0, options.head_bytes});
  if (!head) return propagate(head);
  file->head_ = std::move(*head);
  return file;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<std::vector<std::byte>> HttpFile::get(const ByteRange& range) try {
  bool has_gone_back = false;
  for (unsigned attempts = 0;;) {
    const Url start = current_url();
    auto bytes = attempt(start, range);
    if (bytes) return std::move(*bytes);
    Problem& problem = bytes.error();
    // A link that a redirect gave us may have expired.
    if (problem.is_refused && start.text != url_.text && !has_gone_back) {
      has_gone_back = true;
      set_current_url(url_);
      continue;
    }
    // A silent server has cost the user the whole timeout already.
    const unsigned most = problem.is_timeout ? std::min(options_.retries, 1u) : options_.retries;
    if (!problem.is_transient || attempts >= most || problem.wait > kLongestWait) {
      if (attempts > 0)
        problem.error.message += " (after " + counted(attempts + 1, "attempt") + ")";
      return tl::unexpected<Error>(std::move(problem.error));
    }
    const auto delay = delay_before(attempts++, options_.retry_delay);
    if (auto ok = wait(std::max<std::chrono::milliseconds>(delay, problem.wait)); !ok) {
      return propagate(ok);
    }
  }
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

HttpFile::Attempt<HttpFile::Bytes> HttpFile::attempt(const Url& start, const ByteRange& range) {
  const TransferLimits limits{.body_bytes =
                                  [&](long status, const ResponseHeaders& headers) {
                                    return body_limit(status, headers, range);
                                  },
                              .timeout = options_.timeout,
                              .is_cancelled = options_.is_cancelled};
  while (!connections_.try_acquire_for(std::chrono::milliseconds(200))) {
    if (is_cancelled()) return tl::unexpected<Problem>({interrupted()});
  }
  struct Release {
    std::counting_semaphore<kMaxConnections>& semaphore;
    ~Release() { semaphore.release(); }
  } const release{connections_};
  const auto transfer = transfers_.borrow();
  Url url = start;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    Response response = transfer->get(url, range, credentials_.for_request(url), limits);
    if (response.end != Response::End::kComplete && response.end != Response::End::kLonger) {
      return failed_transfer(response);
    }
    if (!is_redirect(response.status)) {
      auto bytes = accept(std::move(response), url, range);
      if (bytes) set_current_url(url);
      if (!bytes && url.text != url_.text) {
        bytes.error().error.message += " (the URL redirects to " + escaped(mention(url)) + ")";
      }
      return bytes;
    }
    auto next = follow(url, response);
    if (!next) return tl::unexpected<Problem>(std::move(next.error()));
    url = std::move(*next);
  }
  return tl::unexpected<Problem>({error_of(
      ErrorCode::kIoError, "the server redirects more than " + std::to_string(kMaxRedirects) +
                               " times, perhaps in a circle; check the link")});
}

HttpFile::Attempt<Url> HttpFile::follow(const Url& from, const Response& response) const {
  const std::string& location = response.headers.location();
  auto next = location.empty() ? Result<Url>(fail(ErrorCode::kIoError, ""))
                               : resolve_redirect(from, location);
  if (!next) {
    return tl::unexpected<Problem>(
        {error_of(ErrorCode::kIoError,
                  "the server redirects to something other than an http or https URL, which is "
                  "never followed; check the link")});
  }
  // A link in the query would travel in the open, and anybody on the way could answer.
  if (from.scheme == "https" && next->scheme == "http") {
    return tl::unexpected<Problem>({error_of(
        ErrorCode::kIoError, "the server redirects from https to http, to " + mention(*next) +
                                 ", which is never followed; use that URL if you trust "
                                 "the network")});
  }
  return std::move(*next);
}

std::uint64_t HttpFile::body_limit(long status, const ResponseHeaders& headers,
                                   const ByteRange& range) const {
  if (status == 206) {
    const auto said = parse_content_range(headers.content_range());
    return said ? std::min(said->end - said->begin, range.end - range.begin) : 0;
  }
  // Later a whole file is an error anyway, and a large one is not read at all.
  if (version_) return 0;
  return headers.content_length().value_or(0) > kWholeFileBytes ? 0 : kWholeFileBytes;
}

tl::unexpected<HttpFile::Problem> HttpFile::failed_transfer(const Response& response) const {
  const auto problem = [&](ErrorCode code, std::string_view message) {
    return tl::unexpected<Problem>({error_of(code, message), response.is_transient,
                                    response.is_timeout, false, std::chrono::seconds{}});
  };
  switch (response.end) {
    case Response::End::kHeaderFlood:
      return problem(ErrorCode::kIoError, "the server sends more than " +
                                              counted(ResponseHeaders::kMaxBytes, "byte") +
                                              " of headers; check the link");
    case Response::End::kBadHeaders:
      return problem(ErrorCode::kIoError,
                     "the headers that the server sends are not valid HTTP; check the link");
    case Response::End::kBadChunks:
      return problem(ErrorCode::kIoError,
                     "the chunks that the server sends, or the headers after them, are not valid "
                     "HTTP; check the link");
    case Response::End::kCancelled:
      return tl::unexpected<Problem>({interrupted()});
    case Response::End::kOutOfMemory:
      return tl::unexpected<Problem>({out_of_memory().value()});
    default:
      break;
  }
  if (response.is_timeout) {
    return problem(ErrorCode::kIoError,
                   "the server sent nothing, or less than 1 KiB per second, for " +
                       counted(options_.timeout, "second") + "; try again later");
  }
  if (response.end == Response::End::kBroken) {
    return problem(ErrorCode::kIoError,
                   "the connection broke off (" + response.problem + "); try again");
  }
  return problem(ErrorCode::kIoError,
                 "no response: " + response.problem + "; check the link and the network");
}

HttpFile::Attempt<HttpFile::Bytes> HttpFile::accept(Response response, const Url& url,
                                                    const ByteRange& range) {
  if (response.status == 416) return accept_nothing(response, range);
  if (response.status != 200 && response.status != 206) return refused(response, url);
  const std::string& encoding = response.headers.content_encoding();
  if (!encoding.empty() && encoding != "identity") {
    // Offsets would be those of the compressed bytes.
    return tl::unexpected<Problem>(
        {error_of(ErrorCode::kIoError,
                  "the server compresses its response (" + encoding.substr(0, 40) +
                      ") though it was asked not to; turn that off on the server, or download the "
                      "file first")});
  }
  return response.status == 206 ? accept_part(std::move(response), range)
                                : accept_whole(std::move(response));
}

HttpFile::Attempt<HttpFile::Bytes> HttpFile::accept_part(Response response,
                                                         const ByteRange& range) {
  const auto said = parse_content_range(response.headers.content_range());
  if (!said || said->end == 0 || (!said->total && !version_)) {
    return tl::unexpected<Problem>(
        {no_ranges("its response has no valid Content-Range with the size of the file")});
  }
  auto version = check_version(response, said->total);
  if (!version) return tl::unexpected<Problem>(std::move(version.error()));
  // Only the first request may reach beyond the end.
  const std::uint64_t end = std::min(range.end, version->size);
  if (said->begin != range.begin || said->end < end) {
    return tl::unexpected<Problem>({no_ranges("it sends " + bytes_text(said->begin, said->end) +
                                              " in place of " + bytes_text(range.begin, end))});
  }
  const std::uint64_t wanted = end - range.begin;
  if (response.body.size() < wanted) {
    return tl::unexpected<Problem>(
        {error_of(ErrorCode::kIoError,
                  "the response ended after " + counted(response.body.size(), "byte") + " of " +
                      std::to_string(wanted) + "; try again",
                  range.begin + response.body.size()),
         true});
  }
  // A server may send more than it was asked for, if it says so.
  if (response.end == Response::End::kLonger && said->end <= end) {
    return tl::unexpected<Problem>({no_ranges("its response is longer than it says")});
  }
  response.body.resize(static_cast<std::size_t>(wanted));
  if (!version_) version_ = std::move(*version);
  return std::move(response.body);
}

HttpFile::Attempt<HttpFile::Bytes> HttpFile::accept_whole(Response response) {
  if (version_) {
    auto version = check_version(response, std::nullopt);
    if (!version) return tl::unexpected<Problem>(std::move(version.error()));
    return tl::unexpected<Problem>({no_ranges("it did at first, and now sends the whole file")});
  }
  if (response.end == Response::End::kLonger) {
    const auto length = response.headers.content_length();
    return tl::unexpected<Problem>({no_ranges(
        "it sends the whole file" + (length ? " of " + counted(*length, "byte") : std::string()))});
  }
  version_ = Version{response.body.size(), response.headers.strong_etag(),
                     response.headers.last_modified()};
  return std::move(response.body);
}

HttpFile::Attempt<HttpFile::Bytes> HttpFile::accept_nothing(const Response& response,
                                                            const ByteRange& range) {
  if (version_) {
    return tl::unexpected<Problem>({changed("it is shorter now")});
  }
  const auto said = parse_content_range(response.headers.content_range());
  if (range.begin > 0 || !said || said->total != std::uint64_t{0}) {
    return tl::unexpected<Problem>({no_ranges("status 416")});
  }
  version_ = Version{};
  return Bytes();
}

HttpFile::Attempt<HttpFile::Version> HttpFile::check_version(
    const Response& response, std::optional<std::uint64_t> size) const {
  Version version{size.value_or(version_ ? version_->size : 0), response.headers.strong_etag(),
                  response.headers.last_modified()};
  if (!version_) return version;
  if (version.size != version_->size) {
    return tl::unexpected<Problem>({changed("it has " + counted(version.size, "byte") +
                                            " now and had " + std::to_string(version_->size))});
  }
  // The ETag decides if both have one: servers behind one name may differ in their dates.
  const bool have_etags = !version.etag.empty() && !version_->etag.empty();
  const bool have_dates = !version.modified.empty() && !version_->modified.empty();
  if (have_etags ? version.etag != version_->etag
                 : have_dates && version.modified != version_->modified) {
    return tl::unexpected<Problem>({changed("it has another version")});
  }
  return version;
}

tl::unexpected<HttpFile::Problem> HttpFile::refused(const Response& response,
                                                    const Url& url) const {
  const long status = response.status;
  const std::string number = "status " + std::to_string(status);
  if (status == 404 || status == 410) {
    // Only the server that was asked knows that a file is missing. Otherwise a file that names a
    // thousand others could have each looked for behind redirects to a port of this machine.
    const bool is_missing = have_same_origin(url, url_);
    return tl::unexpected<Problem>(
        {error_of(is_missing ? ErrorCode::kFileNotFound : ErrorCode::kIoError,
                  "the server has no such file (" + number + "); check the link"),
         false, false, true});
  }
  if (status == 401 || status == 403) {
    return tl::unexpected<Problem>(
        {error_of(ErrorCode::kIoError,
                  "the server refuses access (" + number + "); " + credentials_.advice(url)),
         false, false, true});
  }
  if (status != 408 && status != 429 && status < 500) {
    return tl::unexpected<Problem>(
        {error_of(ErrorCode::kIoError,
                  "the server does not send the file (" + number + "); check the link")});
  }
  const auto wait = parse_retry_after(response.headers.retry_after(), std::time(nullptr));
  const std::string when = wait.count() > 0
                               ? "in " + counted(static_cast<std::uint64_t>(wait.count()), "second")
                               : "later";
  return tl::unexpected<Problem>(
      {error_of(ErrorCode::kIoError,
                "the server is busy or broken (" + number + "); try again " + when),
       true, false, false, wait});
}

Result<void> HttpFile::wait(std::chrono::milliseconds time) const {
  constexpr std::chrono::milliseconds kStep{50};
  for (; time.count() > 0; time -= kStep) {
    if (is_cancelled()) return tl::unexpected<Error>(interrupted());
    std::this_thread::sleep_for(std::min(time, kStep));
  }
  return {};
}

Url HttpFile::current_url() {
  const std::lock_guard lock(mutex_);
  return current_;
}

void HttpFile::set_current_url(const Url& url) {
  const std::lock_guard lock(mutex_);
  current_ = url;
}

}  // namespace espalier::http
