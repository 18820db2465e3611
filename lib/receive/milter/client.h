#pragma once
/// One filter in one session: the connection, its state, and what the filter answers to each event.
///
/// Use:     Client client(tools, settings, filter, endpoints);
///          client.session(&facts);                                    // the client; replayed if the filter is late
///          Verdict v = co_await client.event(Stage::mail, c_string("<a@b>"), macros);
///          Answered a = co_await client.message(draft, body, make_body, macros);
///          client.abort(); co_await client.quit();
/// Order:   events as SMTP has them. Where the filter answers, event() waits for the answer; where it does not, the
///          packets leave with the next one that waits. Header, body and end of a message leave together, and the
///          answers are read behind them, if Endpoint::goes_on().
/// Errors:  a filter that cannot be reached, hangs or breaks the protocol is reported once; its default action is the
///          verdict until the next MAIL, which connects again.
/// Bounds:  kMaxPacket for a reply; kMaxEdits and kMaxEditBytes for the changes that one message gets.
/// Thread:  the loop's. Settings, endpoints, facts and draft outlive it.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/stream.h"
#include "lib/receive/milter/draft.h"
#include "lib/receive/milter/endpoints.h"
#include "lib/receive/milter/macros.h"

namespace pen::milter {

/// What clients of one process share.
struct Tools {
  async::Loop& loop;
  /// Addresses of a host, numeric; at least one.
  std::function<async::Task<Result<std::vector<std::string>>>(std::string host, async::Until until)> find_host;
  std::function<void(const std::string&)> warn;
};

/// What filters learn of the client; kept for filters that connect later.
struct SessionFacts {
  std::string connect;  // the data of the connect event
  std::string helo;     // of the last HELO event; empty: none yet
  const MacroSource* macros = nullptr;
};
/// The data of a connect event. address: numeric, or empty if it is not known; then the name is "unknown".
std::string connect_data(std::string_view name, std::string_view address, std::uint16_t port);

struct Verdict {
  std::vector<std::string> reply;  // SMTP reply, lines without CRLF; empty: not refused
  bool discard = false, hold = false;
  std::string hold_reason;
  bool by_default = false;  // no filter's word: it could not be asked
  bool told = false;        // milter_header_checks refuse or discard: the log has their line
  bool refused() const { return !reply.empty(); }
  bool permanent() const { return refused() && reply.front().front() == '5'; }
  bool ends_session() const { return refused() && reply.front().starts_with("421"); }
};

class Client {
 public:
  static constexpr std::size_t kMaxPacket = 1U << 20;
  static constexpr std::size_t kMaxEdits = 10'000, kMaxEditBytes = 1U << 20;

  Client(const Tools& tools, const Settings& settings, std::shared_ptr<const Filter> filter, Endpoints& endpoints)
      : tools_(tools),
        settings_(settings),
        filter_(std::move(filter)),
        endpoints_(endpoints),
        endpoint_(endpoints.of(*filter_)) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void session(const SessionFacts* facts) { session_ = facts; }
  const Filter& filter() const { return *filter_; }

  /// An event up to the end of data; data: of its packet, without macros.
  async::Task<Verdict> event(Stage stage, std::string_view data, const MacroSource& macros);
  /// Whether event() will wait for this filter.
  bool waits(Stage stage) const;
  bool wants_rejected_recipients() const { return ready() && agreed_.wants_rejected_recipients(); }

  /// The filter's answer to a whole message.
  struct Answered {
    Verdict verdict;
    std::vector<Edit> edits;             // without pieces of the body
    std::shared_ptr<intake::Body> body;  // in place of the old one; nullptr: that stays
    bool leading_space = false;          // values of fields come with the blank behind the colon
    const Edit* quarantine() const;      // the last one; nullptr: it holds nothing
  };
  using MakeBody = std::function<std::shared_ptr<intake::Body>()>;
  /// body: of the draft. make_body: an empty one, for what the filter writes.
  async::Task<Answered> message(std::shared_ptr<const Draft> draft, intake::HeldContent body, const MakeBody& make_body,
                                const MacroSource& macros);
  /// The filter changes nothing, though it may hold: others need not wait for its answer.
  bool only_reads() const { return ready() && !agreed_.edits(); }

  /// The transaction is over.
  void abort();
  async::Task<void> quit();

 private:
  struct Changes;
  enum class State : std::uint8_t { closed, open, failed };
  bool ready() const { return state_ == State::open; }
  /// Connects, and replays what the filter has missed. The verdict is one of connect or helo.
  async::Task<Verdict> open();
  async::Task<Result<void>> connect();
  async::Task<Result<async::Stream>> reach(async::Until until);
  async::Task<Result<void>> negotiate(async::Until until);
  void send(Stage stage, std::string_view data, const MacroSource& macros);
  /// Sends an event of a message. True: its answer must be waited for now, by settle().
  bool tell(Stage stage, std::string_view data, const MacroSource& macros);
  /// Reads the answers that are still to come. The verdict is that of the first that lets the message go no further.
  async::Task<Verdict> settle();
  bool goes_no_further(const Verdict& v) const { return v.refused() || v.discard || !ready() || message_accepted_; }
  /// A whole packet that has arrived, without waiting.
  Result<std::optional<Final>> buffered_final();
  async::Task<Verdict> ask(Stage stage, std::string_view data, const MacroSource& macros);
  /// Content that is on its way goes out.
  async::Task<Result<void>> push();
  async::Task<Result<std::string>> read_packet(async::Until until);
  async::Task<Result<Final>> read_final(milliseconds timeout);
  async::Task<std::optional<Verdict>> send_header(const Draft& draft, const MacroSource& macros);
  async::Task<std::optional<Verdict>> send_body(intake::HeldContent body);
  async::Task<Result<Final>> read_edits(Answered& out, const MakeBody& make_body);
  Verdict verdict_of(Stage stage, Final final);
  Verdict failed(const Error& error, std::string_view doing);
  Verdict default_verdict() const;
  async::Until within(milliseconds timeout) const { return {.deadline = tools_.loop.now() + timeout}; }
  /// For the next packet of an answer that began to be waited for then.
  async::Until within(milliseconds timeout, SteadyTime began) const {
    return {.deadline = std::min(tools_.loop.now() + timeout, began + filter_->total_timeout)};
  }

  const Tools& tools_;
  const Settings& settings_;
  std::shared_ptr<const Filter> filter_;
  Endpoints& endpoints_;
  Endpoint& endpoint_;
  const SessionFacts* session_ = nullptr;
  std::optional<async::Stream> stream_;
  Negotiation agreed_;
  State state_ = State::closed;
  bool misconfigured_ = false;  // it failed because the two do not fit
  bool session_accepted_ = false, message_accepted_ = false;
  bool in_mail_ = false;  // it knows of a transaction
  bool told_connect_ = false, told_helo_ = false;
  bool ahead_ = false;     // this message's steps are sent before the answers have come
  bool end_sent_ = false;  // of this message, its last step
  bool skip_body_ = false;
  std::vector<Stage> unanswered_;  // steps of this message, in their order
};

}  // namespace pen::milter
