#include "libcurl/curl_transfer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "libcurl/curl_functions.h"
#include <curl/curl.h>

#include "http/response_receiver.h"

namespace espalier::http {
namespace {

// What curl_transfers() has found.
const CurlFunctions& curl() { return **curl_functions(); }

struct FreeEasy {
  void operator()(CURL* handle) const noexcept { curl().easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const noexcept { curl().slist_free_all(list); }
};

// What the callbacks of one request work on. They are called from C, so nothing may be thrown.
struct Receiver : ResponseReceiver {
  Receiver(CURL* curl, const TransferLimits& transfer_limits)
      : ResponseReceiver(transfer_limits), handle(curl), limits(transfer_limits) {}

  bool begin_once() {
    if (has_body()) return true;
    long status = 0;
    curl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return begin_body(status);
  }

  CURL* handle;
  const TransferLimits& limits;
};

std::size_t on_header(char* data, std::size_t, std::size_t size, void* user) noexcept {
  auto& receiver = *static_cast<Receiver*>(user);
  try {
    if (receiver.add_line({data, size})) return size;
  } catch (const std::bad_alloc&) {
    receiver.response().end = Response::End::kOutOfMemory;
  }
  return 0;
}

std::size_t on_body(char* data, std::size_t, std::size_t size, void* user) noexcept {
  auto& receiver = *static_cast<Receiver*>(user);
  try {
    if (receiver.begin_once() && receiver.take({data, size})) return size;
  } catch (const std::bad_alloc&) {
    receiver.response().end = Response::End::kOutOfMemory;
  }
  return 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  auto& receiver = *static_cast<Receiver*>(user);
  if (!receiver.limits.is_cancelled || !receiver.limits.is_cancelled()) return 0;
  receiver.response().end = Response::End::kCancelled;
  return 1;
}

// Errors that the same request may not have the next time. A host that does not exist, a port where
// nobody listens and a bad certificate are none.
bool is_transient(CURLcode code) {
  static constexpr std::array kTransient = {
      CURLE_OPERATION_TIMEDOUT, CURLE_GOT_NOTHING,  CURLE_SEND_ERROR, CURLE_RECV_ERROR,
      CURLE_PARTIAL_FILE,       CURLE_HTTP2_STREAM, CURLE_HTTP2,
  };
  return std::find(kTransient.begin(), kTransient.end(), code) != kTransient.end();
}

// One header line that never ends: libcurl has a limit of its own, and calls this a lack of memory.
bool is_endless_line(CURL* handle, CURLcode code) {
  long sent = 0;
  curl().easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &sent);
  constexpr int kTooLarge = 100;  // CURLE_TOO_LARGE of 8.6 and later
  return static_cast<int>(code) == kTooLarge || (code == CURLE_OUT_OF_MEMORY && sent > 0);
}

void set_up_credentials(CURL* handle, const Credentials& credentials) {
  if (!credentials.token.empty()) {
    curl().easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl().easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, credentials.token.c_str());
  } else if (!credentials.user.empty() || !credentials.password.empty()) {
    curl().easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl().easy_setopt(handle, CURLOPT_USERNAME, credentials.user.c_str());
    curl().easy_setopt(handle, CURLOPT_PASSWORD, credentials.password.c_str());
  } else if (credentials.from_netrc) {
    curl().easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl().easy_setopt(handle, CURLOPT_NETRC, CURL_NETRC_OPTIONAL);
  }
}

void set_up_limits(CURL* handle, unsigned timeout) {
  curl().easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, static_cast<long>(timeout));
  curl().easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(kLeastBytesPerSecond));
  curl().easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(timeout));
  // Signals are the program's.
  curl().easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  // url.h has checked the scheme; this is the second lock.
  // A libcurl that is loaded may be older than the headers, or newer: 7.85 and later know the first
  // of these, and before that there was the second one.
  constexpr auto kProtocolNames = static_cast<CURLoption>(CURLOPTTYPE_STRINGPOINT + 318);
  constexpr auto kProtocols = static_cast<CURLoption>(CURLOPTTYPE_LONG + 181);
  if (curl().easy_setopt(handle, kProtocolNames, "http,https") != CURLE_OK) {
    curl().easy_setopt(handle, kProtocols, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  }
}

void set_up_network(CURL* handle, const Url& url) {
  // Tokens go to this machine in plain text, so not through a proxy.
  if (is_loopback(url)) curl().easy_setopt(handle, CURLOPT_PROXY, "");
  curl().easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  // Where OpenSSL's own tools look for the certificates of an organisation.
  const char* certificates = std::getenv("SSL_CERT_FILE");
  if (certificates != nullptr && *certificates != '\0') {
    curl().easy_setopt(handle, CURLOPT_CAINFO, certificates);
  }
  curl().easy_setopt(handle, CURLOPT_USERAGENT, "espalier/" ESPALIER_VERSION);
}

using List = std::unique_ptr<curl_slist, FreeList>;

// False without memory.
bool append(List& list, const std::string& line) {
  curl_slist* const longer = curl().slist_append(list.get(), line.c_str());
  if (longer == nullptr) return false;
  static_cast<void>(list.release());  // `longer` is it, or holds it.
  list.reset(longer);
  return true;
}

// None without memory.
List header_lines(const Credentials& credentials) {
  List lines;
  // A compressed range is of no use: it is part of another sequence of bytes.
  bool is_complete = append(lines, "Accept-Encoding: identity");
  for (const Header& header : credentials.headers) {
    // libcurl takes a field without a value for one to leave out, unless it ends so.
    is_complete =
        is_complete &&
        append(lines, header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
  }
  return is_complete ? std::move(lines) : nullptr;
}

class CurlTransfer : public Transfer {
 public:
  Response get(const Url& url, const ByteRange& range, const Credentials& credentials,
               const TransferLimits& limits) override;

 private:
  std::unique_ptr<CURL, FreeEasy> easy_{curl().easy_init()};
};

Response CurlTransfer::get(const Url& url, const ByteRange& range, const Credentials& credentials,
                           const TransferLimits& limits) {
  CURL* const handle = easy_.get();
  Receiver receiver(handle, limits);
  const List headers = header_lines(credentials);
  if (handle == nullptr || headers == nullptr) {
    receiver.response().end = Response::End::kOutOfMemory;
    return std::move(receiver.response());
  }
  const std::string bytes = std::to_string(range.begin) + "-" + std::to_string(range.end - 1);
  std::array<char, CURL_ERROR_SIZE> problem{};

  // Keeps connections, and forgets the credentials of the request before.
  curl().easy_reset(handle);
  curl().easy_setopt(handle, CURLOPT_URL, url.text.c_str());
  curl().easy_setopt(handle, CURLOPT_RANGE, bytes.c_str());
  curl().easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl().easy_setopt(handle, CURLOPT_ERRORBUFFER, problem.data());
  curl().easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl().easy_setopt(handle, CURLOPT_HEADERDATA, &receiver);
  curl().easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl().easy_setopt(handle, CURLOPT_WRITEDATA, &receiver);
  curl().easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl().easy_setopt(handle, CURLOPT_XFERINFODATA, &receiver);
  curl().easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  set_up_credentials(handle, credentials);
  set_up_limits(handle, limits.timeout);
  set_up_network(handle, url);

  const CURLcode code = curl().easy_perform(handle);
  Response& response = receiver.response();
  curl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &response.status);
  // The handle must not keep pointers to what ends here.
  curl().easy_setopt(handle, CURLOPT_ERRORBUFFER, nullptr);
  curl().easy_setopt(handle, CURLOPT_HTTPHEADER, nullptr);
  if (code == CURLE_OK) {
    response.end = Response::End::kComplete;
  } else if (response.end == Response::End::kNoResponse) {
    response.problem = problem[0] != '\0' ? problem.data() : curl().easy_strerror(code);
    response.is_transient = is_transient(code);
    response.is_timeout = code == CURLE_OPERATION_TIMEDOUT;
    if (code == CURLE_OUT_OF_MEMORY) response.end = Response::End::kOutOfMemory;
    if (receiver.has_body() && response.is_transient) response.end = Response::End::kBroken;
    if (!receiver.has_body() && is_endless_line(handle, code)) {
      response.end = Response::End::kHeaderFlood;
    }
    // Also trailers without end, which would be fetched anew with each try. libcurl has no code for
    // these: to it the connection is broken.
    if (response.status != 0 && response.problem.find("chunked") != std::string::npos) {
      response.end = Response::End::kBadChunks;
      response.is_transient = false;
    }
  }
  return std::move(response);
}

}  // namespace

Result<MakeTransfer> curl_transfers() {
  const auto functions = curl_functions();
  if (!functions) return propagate(functions);
  return [] { return std::make_unique<CurlTransfer>(); };
}

}  // namespace espalier::http
