#include "serve/connection.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace espalier::serve {
namespace {

using std::chrono::seconds;

// Time for a whole request.
constexpr seconds kRequestTime{30};
// Time without a byte that the client takes: pages that wait for the user do not read either.
constexpr seconds kWriteTime{120};
// Bytes read from a file at once.
constexpr std::size_t kPiece = 256 * 1024;

// The next bytes of the resource, at most `limit`.
Result<BufferHandle> read_piece(const Resource& resource, std::uint64_t offset, std::size_t limit) {
  BufferHandle piece(had(evbuffer_new()));
  evbuffer_iovec room = {};
  const auto wanted = static_cast<ev_ssize_t>(limit);
  if (evbuffer_reserve_space(piece.get(), wanted, &room, 1) != 1) throw std::bad_alloc();
  auto* bytes = static_cast<std::byte*>(room.iov_base);
  const auto read = resource.read(offset, {bytes, std::min(limit, room.iov_len)});
  if (!read) return propagate(read);
  room.iov_len = *read;
  done(evbuffer_commit_space(piece.get(), &room, 1));
  return piece;
}

}  // namespace

Connection& Connection::add(Crowd& crowd, bufferevent*& buffer) {
  Connection& connection = crowd.all.emplace_back(crowd);
  connection.place_ = std::prev(crowd.all.end());
  buffer = connection.buffer_.get();
  bufferevent_incref(buffer);  // One reference for us, and one for evhttp.
  return connection;
}

Connection::Connection(Crowd& crowd)
    : crowd_(crowd), buffer_(had(bufferevent_socket_new(crowd.base, -1, 0))) {
  // evhttp reads without limit until it finds the end of a line, even for the length of a chunk.
  bufferevent_setwatermark(buffer_.get(), EV_READ, 0, 2 * kMaxHead);
  // No read timeout: it would restart with every byte.
  const timeval time = timeval_of(kWriteTime);
  done(bufferevent_set_timeouts(buffer_.get(), nullptr, &time));
  done(bufferevent_set_max_single_write(buffer_.get(), kPiece));
  const auto late = [](evutil_socket_t, short, void* self) {
    static_cast<Connection*>(self)->close();
  };
  deadline_.reset(had(evtimer_new(crowd.base, late, this)));
  send_answers_only();
  wait();
}

// evhttp's own errors (400, 413, 417, 501) lack our headers, so other pages could detect this
// server. evhttp cannot turn them off, and its connection must not be freed while it writes one. So
// the deadline fires at once: the connection ends before the loop sends anything.
void Connection::send_answers_only() {
  const auto written = [](evbuffer*, const evbuffer_cb_info* change, void* self) {
    const auto* connection = static_cast<Connection*>(self);
    if (change->n_added == 0 || connection->state_ != State::kWaiting) return;
    event_active(connection->deadline_.get(), EV_TIMEOUT, 0);
  };
  had(evbuffer_add_cb(bufferevent_get_output(buffer_.get()), written, this));
}

// If the client leaves during an answer, evhttp gives up ownership of the request, and we free it.
Connection::~Connection() {
  if (request_ != nullptr && evhttp_request_get_connection(request_) == nullptr) {
    evhttp_request_free(request_);
  }
}

void Connection::adopt() {
  // evhttp exposes a connection only with its first request. But the connection is the argument of
  // evhttp's callbacks on the buffer. There are none if evhttp has given up at once.
  void* callee = nullptr;
  bufferevent_getcb(buffer_.get(), nullptr, nullptr, nullptr, &callee);
  buffer_.reset();
  const auto closed = [](evhttp_connection*, void* self) {
    auto* connection = static_cast<Connection*>(self);
    connection->crowd_.all.erase(connection->place_);
  };
  if (callee == nullptr) return closed(nullptr, this);
  connection_ = static_cast<evhttp_connection*>(callee);
  evhttp_connection_set_closecb(connection_, closed, this);
}

void Connection::wait() {
  const timeval time = timeval_of(kRequestTime);
  done(evtimer_add(deadline_.get(), &time));
}

void Connection::answer(evhttp_request* request, const Answer& answer) {
  evtimer_del(deadline_.get());
  state_ = answer.is_authorized ? State::kAnswering : State::kRefusing;
  was_authorized_ = was_authorized_ || answer.is_authorized;
  const auto completed = [](evhttp_request*, void* self) {
    auto* connection = static_cast<Connection*>(self);
    auto& all = connection->crowd_.all;
    connection->state_ = State::kWaiting;
    connection->resource_.reset();
    all.splice(all.end(), all, connection->place_);
    connection->crowd_.run([&] { connection->wait(); });
  };
  evhttp_request_set_on_complete_cb(request, completed, this);
  for (const auto& [name, value] : answer.fields) {
    done(evhttp_add_header(evhttp_request_get_output_headers(request), name, value.c_str()));
  }
  if (answer.resource == nullptr) {
    const BufferHandle text(had(evbuffer_new()));
    done(evbuffer_add(text.get(), answer.text.data(), answer.text.size()));
    evhttp_send_reply(request, answer.status, nullptr, text.get());
    return stop_reading();
  }
  request_ = request;
  resource_ = answer.resource;
  offset_ = answer.offset;
  left_ = answer.length;
  evhttp_send_reply_start(request, answer.status, nullptr);
  send_piece();
}

void Connection::send_piece() {
  const auto limit = static_cast<std::size_t>(std::min<std::uint64_t>(left_, kPiece));
  const auto piece = read_piece(*resource_, offset_, limit);
  if (!piece) return close();
  const std::size_t size = evbuffer_get_length(piece->get());
  offset_ += size;
  left_ -= size;
  if (left_ > 0) {
    const auto taken = [](evhttp_connection*, void* self) {
      auto* connection = static_cast<Connection*>(self);
      connection->crowd_.run([&] { connection->send_piece(); });
    };
    evhttp_send_reply_chunk_with_cb(request_, piece->get(), taken, this);
  } else {
    evhttp_send_reply_chunk(request_, piece->get());
    evhttp_send_reply_end(std::exchange(request_, nullptr));
  }
  stop_reading();
}

// evhttp keeps reading during an answer, to notice that the client leaves. But it buffers
// everything, and treats a half-closed connection as a client that left.
void Connection::stop_reading() {
  done(bufferevent_disable(evhttp_connection_get_bufferevent(connection_), EV_READ));
}

}  // namespace espalier::serve
