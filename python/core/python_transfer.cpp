#include "python_transfer.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kept_object.h"
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>

#include "http/response_reader.h"

namespace espalier::python {

namespace nb = nanobind;

namespace {

using http::Response;
using Clock = std::chrono::steady_clock;

// Sees a server that sends next to nothing, now and then.
class Patience {
 public:
  explicit Patience(unsigned seconds)
      : period_(seconds), least_(seconds * http::kLeastBytesPerSecond) {}

  // Whether too little came since the period began. A period ends with enough bytes.
  bool is_over(std::size_t bytes) {
    came_ += bytes;
    if (came_ >= least_) {
      came_ = 0;
      begin_ = Clock::now();
    }
    return Clock::now() - begin_ > period_;
  }

 private:
  std::chrono::seconds period_;
  std::uint64_t least_;
  std::uint64_t came_ = 0;
  Clock::time_point begin_ = Clock::now();
};

// Secrets need not be UTF-8.
nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::list pairs_of(const std::vector<http::Header>& headers) {
  nb::list pairs;
  for (const auto& [name, value] : headers) pairs.append(nb::make_tuple(name, bytes_of(value)));
  return pairs;
}

class PythonTransfer : public http::Transfer {
 public:
  explicit PythonTransfer(nb::object connection) : connection_(std::move(connection)) {}

  Response get(const http::Url& url, const http::ByteRange& range,
               const http::Credentials& credentials, const http::TransferLimits& limits) override {
    const nb::gil_scoped_acquire acquired;
    http::ResponseReader reader(limits);
    bool is_reused = request(reader, url, range, credentials, limits);
    receive(reader, limits);
    // Servers close connections that are idle, at any time.
    if (is_reused && !reader.has_begun() && reader.response().end == Response::End::kNoResponse &&
        !reader.response().is_timeout) {
      finish(reader);
      http::ResponseReader again(limits);
      request(again, url, range, credentials, limits);
      receive(again, limits);
      return finish(again);
    }
    return finish(reader);
  }

 private:
  // Whether a connection is used again.
  bool request(http::ResponseReader& reader, const http::Url& url, const http::ByteRange& range,
               const http::Credentials& credentials, const http::TransferLimits& limits) {
    bool is_reused = false;
    attempt(reader, [&] {
      const nb::object target = nb::module_::import_("espalier._http")
                                    .attr("Target")(url.scheme, url.host, url.port, url.path,
                                                    url.text, http::is_loopback(url));
      const nb::object login =
          nb::module_::import_("espalier._http")
              .attr("Login")(bytes_of(credentials.token), bytes_of(credentials.user),
                             bytes_of(credentials.password), credentials.from_netrc,
                             pairs_of(credentials.headers));
      const std::string bytes =
          "bytes=" + std::to_string(range.begin) + "-" + std::to_string(range.end - 1);
      const auto is_cancelled = [&limits] { return limits.is_cancelled && limits.is_cancelled(); };
      is_reused = nb::cast<bool>(connection_.get().attr("request")(
          target, login, bytes, limits.timeout, nb::cpp_function(is_cancelled)));
    });
    return is_reused;
  }

  void receive(http::ResponseReader& reader, const http::TransferLimits& limits) {
    Patience patience(limits.timeout);
    while (!reader.is_ended()) {
      attempt(reader, [&] {
        // None if nothing came for a moment; empty at the end of the connection.
        const nb::object part = connection_.get().attr("receive")();
        std::string_view bytes;
        if (!part.is_none()) {
          const auto received = nb::cast<nb::bytes>(part);
          bytes = {received.c_str(), received.size()};
          const bool goes_on = !bytes.empty() && reader.feed(bytes);
          if (bytes.empty()) reader.end("", true);
          if (!goes_on) return;
        }
        if (limits.is_cancelled && limits.is_cancelled()) {
          reader.stop(Response::End::kCancelled);
        } else if (patience.is_over(bytes.size())) {
          reader.end("it sends too little", true);
          reader.response().is_timeout = true;
        }
      });
    }
  }

  Response finish(http::ResponseReader& reader) {
    if (!reader.may_go_on()) {
      // What is still to come is none of the next response's.
      attempt(reader, [&] { connection_.get().attr("close")(); });
    }
    return std::move(reader.response());
  }

  // What Python raises, as the end of the response.
  template <class Call>
  static void attempt(http::ResponseReader& reader, const Call& call) {
    try {
      call();
    } catch (const nb::python_error& error) {
      if (error.matches(PyExc_MemoryError)) {
        reader.stop(Response::End::kOutOfMemory);
        return;
      }
      const nb::module_ module = nb::module_::import_("espalier._http");
      if (error.matches(module.attr("Cancelled"))) {
        reader.stop(Response::End::kCancelled);
        return;
      }
      const auto why = nb::cast<std::string>(module.attr("why")(error.value()));
      reader.end(why, error.matches(module.attr("TRANSIENT")));
      reader.response().is_timeout = error.matches(PyExc_TimeoutError);
    }
  }

  KeptObject connection_;
};

}  // namespace

std::unique_ptr<http::Transfer> make_python_transfer() {
  const nb::gil_scoped_acquire acquired;
  return std::make_unique<PythonTransfer>(
      nb::module_::import_("espalier._http").attr("Connection")());
}

}  // namespace espalier::python
