#pragma once
/// The dialogue of one session, for those readers of a Hub that have a filter which it fits.
///
/// Use:     Dialogue d(hub, Dialogue::Way::in, Begin::start, "4711-12");   while hub.on() alone
///          d.peer(address, name);  d.mark("connect from …");
///          d.command("MAIL FROM:<a@b>");  d.reply("250 2.1.0 Ok\r\n");  d.response();  d.content(4241);
///          d.end("lost connection");
///          if (d.stale()) another one, midway: nobody read for a while.
/// Fits:    a session fits by its hosts, and where a filter speaks of messages, while it is about such a one: coming
///          in, from the MAIL of that transaction to the next one; going out, where messages share connections and
///          commands overlap, while such a message is in hand. The last lines before that are kept, a few, and follow
///          then: how the connection began, and what was said of this message.
/// Cost:    while every reader wants every session, what is said is noted as it is (Hub::note()) and looked at with
///          what others said, at once. With a filter each line is looked at when it is said.
/// Secrets: as lib/mail/shown_dialogue.h. Marks are the caller's words.
/// Thread:  the loop's. The Hub must outlive it.
#include <deque>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mail/shown_dialogue.h"
#include "lib/suite/trace/hub.h"

namespace pen::trace {

using Begin = mail::ShownDialogue::Begin;

class Dialogue {
 public:
  enum class Way : std::uint8_t { in, out };
  static constexpr std::size_t kMaxLine = 1000;
  // Of one session that may yet fit: a connection's beginning and a message with some recipients.
  static constexpr std::size_t kKeptLines = 40;
  static constexpr std::size_t kKeptBytes = 4096;

  /// session: what it is called, here and in events (events::session_text()).
  Dialogue(Hub& hub, Way way, Begin begin, std::string session);
  ~Dialogue();
  Dialogue(const Dialogue&) = delete;
  Dialogue& operator=(const Dialogue&) = delete;

  bool stale() const { return epoch_ != hub_.epoch(); }

  /// The other side. name: empty: it has none, or it is not known yet.
  void peer(std::string_view address, std::string_view name);
  /// (in) Of the transaction under way.
  void queue_id(std::string_view id) {
    if (!hub_.everything()) judge_queue_id(id);
  }
  /// (out) A message is sent from now on, until job_ends() as often as job_begins(). recipients: a range of texts.
  template <std::ranges::range Recipients = std::vector<std::string_view>>
  void job_begins(std::string_view id, std::string_view sender, Recipients&& recipients) {
    if (jobs_++ == 0) new_message();
    if (!hub_.everything()) judge_job(id, sender, {std::ranges::begin(recipients), std::ranges::end(recipients)});
  }
  void job_ends(std::string_view id);

  /// One line or several, with or without their ends.
  void command(std::string_view text) { say(Said::command, text); }
  void reply(std::string_view text) { say(Said::reply, text); }
  void response() { say(Said::response, {}); }
  /// Content came or was sent. id: (out) of which message.
  void content(std::uint64_t octets, std::string_view id = {});
  void mark(std::string_view text) { say(Said::mark, text); }
  /// The last mark.
  void end(std::string_view text);

 private:
  friend class Hub;
  struct Follow {
    Hub::Reader* reader = nullptr;
    std::uint64_t number = 0;                                  // the reader's: where one was, there may be another
    bool client = false, host = false;                         // fits by these
    bool domain = false, recipient = false, queue_id = false;  // the transaction does
    std::vector<std::string> jobs = {};                        // (out) in hand, and fit
    std::uint64_t seen = 0;                                    // lines below this number were sent or never kept
    bool told = false;                                         // it got a line
  };
  struct Kept {
    std::uint64_t number;
    bool of_message;
    WallTime time;
    ipc::trace::Kind kind;
    std::string text;
    std::size_t size() const { return sizeof(Kept) + text.size(); }
  };

  /// Knows the readers of now.
  void meet_readers() {
    if (changes_ != hub_.changes()) meet_new_readers();
  }
  void meet_new_readers();
  bool fits(const Follow& f) const;
  void judge_peer(Follow& f) const;
  void judge_sight();
  void judge_queue_id(std::string_view id);
  void judge_job(std::string_view id, std::string_view sender, const std::vector<std::string_view>& recipients);
  void say(Said what, std::string_view text) {
    if (hub_.note(*this, what, text)) return;
    if (out_of_sight_ && changes_ == hub_.changes()) {
      missed_ = true;
      return;
    }
    take(what, text, hub_.now());
  }
  /// What was said at that time, now or a while ago.
  void take(Said what, std::string_view text, WallTime time);
  void line(ipc::trace::Kind kind, std::string_view text, WallTime time);
  /// The text as it may be shown: printable and cut. Lives until the next call, and as long as what was passed.
  std::string_view fit_to_show(std::string_view text);
  void send(const Follow& f, WallTime time, ipc::trace::Kind kind, std::string_view text);
  void keep(Kept one);
  /// Sends what was kept for those that fit now.
  void catch_up();
  /// (in) What a command says of its message, before it is shown.
  void learn(mail::Verb verb, std::string_view line);
  void new_message();
  void forget_oldest();
  static void begin_transaction(Follow& f);

  Hub& hub_;
  Way way_;
  std::uint64_t epoch_, changes_ = 0;
  std::string id_;
  mail::ShownDialogue shown_;
  std::string address_, name_, greeted_as_;  // of the other side
  bool named_ = false;                       // peer() has said the name
  bool out_of_sight_ = false;  // no reader's hosts have this one among them: whatever it says, it will not fit
  bool missed_ = false;        // something was said meanwhile, and shown_ does not know it
  bool in_message_ = false;
  std::size_t jobs_ = 0;
  std::vector<Follow> follows_;
  std::string fitted_;
  std::deque<Kept> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t lines_ = 0, lost_ = 0;
  bool ended_ = false;
};

}  // namespace pen::trace
