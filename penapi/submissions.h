#pragma once
/// Mail that clients hand in by HTTP: POST /api/v1/messages (docs/http-submission.md).
///
/// Use:     Submissions submissions(server);
///          Response r = co_await submissions.take(stream, head, local, read);   // the body is not read yet
/// Order:   the token is tried at smtpd before a byte of the body is read, so that strangers take no memory; then the
///          request waits for memory, is read and made a message, and goes to smtpd in one SMTP transaction.
/// Logins:  tokens that have not been right yet have kStrangers places at smtpd, and a wrong one keeps its place for
///          kWrong: behind a reverse proxy all clients have one address, so that smtpd cannot tell them apart.
/// Promise: 202 is said when smtpd has said that the message is queued, which qmgr has on disk.
/// Bounds:  a body has message_size_limit bytes, or a quarter of penapi_submission_memory if that is less; all requests
///          together take that memory. A body has penapi_timeout to come, and a second more for each kSlowest bytes.
/// Thread:  the loop's. The server outlives it.
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"
#include "penapi/compose.h"
#include "penapi/http.h"
#include "penapi/kept_answers.h"
#include "penapi/smtp_dialogue.h"

namespace pen::api {

class Server;

class Submissions {
 public:
  explicit Submissions(Server& server);
  /// Of a body, in bytes.
  std::size_t largest() const { return largest_; }
  /// read becomes true when the body was read. local: the client is at a Unix socket.
  async::Task<Response> take(async::Stream& stream, const RequestHead& head, bool local, bool& read);

  static constexpr std::size_t kTimes = 4;  // so many times its body a request takes in memory
  static constexpr std::size_t kSlowest = std::size_t{64} << 10;
  static constexpr std::size_t kLongestKey = 255;
  static constexpr std::size_t kStrangers = 10;
  static constexpr seconds kWrong{1}, kStrangerWaits{5};
  static constexpr std::size_t kKnown = 10'000;  // tokens; with more, all wait for a place once more

 private:
  struct Job;
  class Memory;
  class Place;
  /// What is wrong with the header of a request; else the job has what it says.
  std::optional<Response> read_head(const Request& request, Job& job) const;
  async::Task<Response> take_body(async::Stream& stream, const RequestHead& head, Job& job, bool& read);
  std::optional<Response> make_mail(const Request& request, std::string body, Job& job) const;
  /// nullopt: the client is logged in.
  async::Task<std::optional<Response>> log_in(Job& job);
  /// The same at once.
  async::Task<std::optional<Response>> try_token(Job& job);
  async::Task<Response> with_key(Job& job);
  /// What has become of the message that an earlier process was about to queue. nullopt: it is not in the queue.
  async::Task<Result<bool>> in_queue(std::string queue_id);
  async::Task<Response> send(Job& job);
  async::Task<Response> deliver(Job& job, const SmtpDialogue::Sent& sent);

  Server& server_;
  std::size_t largest_;
  std::size_t free_;  // of penapi_submission_memory
  async::Event freed_;
  async::Semaphore strangers_;
  std::unordered_set<std::string> known_;  // SHA-256 of tokens that were right
  std::unique_ptr<KeptAnswers> answers_;   // nullptr: penapi_submission_map is empty
};

}  // namespace pen::api
