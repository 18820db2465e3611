#include "penapi/submissions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "lib/base/digest/digest.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/views/destinations.h"
#include "lib/trust/sasl/token_file.h"
#include "penapi/server.h"

namespace pen::api {

using async::Task;
using mail::Reply;
using nlohmann::ordered_json;

namespace {

constexpr seconds kSoon{5}, kLater{60};  // Retry-After: places are free soon; limits count by the minute

constexpr std::string_view kJson = "application/json", kMessage = "message/rfc822";

std::string sha256(std::string_view text) { return digest::hash(digest::Digest::sha256, text); }

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

Response put_off(std::string_view why, seconds after = kSoon) {
  Response no = failure(503, why);
  no.retry_after = after;
  return no;
}

Response lost(const Error& error) {
  log::warning("penapi_submission_service: {}", error.message());
  return put_off("the service that takes mail went away: nothing was queued");
}

std::optional<std::string> token_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!istarts_with(authorization, kScheme)) return std::nullopt;
  const std::string_view token = trim(authorization.substr(kScheme.size()));
  const bool visible = std::ranges::all_of(token, [](char c) { return c > 32 && c < 127; });
  if (token.empty() || token.size() > sasl::TokenFile::kLongest || !visible) return std::nullopt;
  return std::string(token);
}

/// The client's text, with or without the quotes of a structured field. nullopt: it has another form.
std::optional<std::string> key_of(std::string_view text) {
  if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"')) text = text.substr(1, text.size() - 2);
  if (text.empty() || text.size() > Submissions::kLongestKey) return std::nullopt;
  if (!std::ranges::all_of(text, [](char c) { return c >= 32 && c < 127 && c != '"' && c != '\\'; }))
    return std::nullopt;
  return std::string(text);
}

ordered_json as_json(const Reply& reply) {
  ordered_json j;
  j["code"] = reply.code;
  j["enhanced"] = reply.dsn_or_default();
  j["text"] = printable(reply.text, 1000);
  return j;
}

/// What HTTP calls a refusal.
int status_of(const Reply& reply) {
  const std::string dsn = reply.dsn_or_default();
  if (reply.code == 552 || dsn == "5.3.4") return 413;
  if (reply.permanent()) return 422;
  return dsn.starts_with("4.7.") ? 429 : 503;  // 4.7: rates and quotas
}

/// A refusal of the whole message.
Response refused(const Reply& reply, ordered_json recipients = nullptr) {
  ordered_json j;
  j["error"] = "refused: " + printable(reply.text, 1000);
  j["reply"] = as_json(reply);
  if (recipients.is_array()) j["recipients"] = std::move(recipients);
  Response out{.status = status_of(reply), .body = views::text_of(j)};
  if (out.status == 429 || out.status == 503) out.retry_after = kLater;
  return out;
}

ordered_json recipients_json(const HandedEnvelope& envelope, const std::vector<Reply>& replies) {
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < replies.size(); ++i) {
    ordered_json j;
    j["address"] = envelope.recipients[i];
    j["status"] = replies[i].positive() ? "accepted" : replies[i].permanent() ? "refused" : "put_off";
    j["reply"] = as_json(replies[i]);
    list.push_back(std::move(j));
  }
  return list;
}

/// No recipient was accepted. Where one of them was put off, the next request may be taken: the answer is not for good.
Response none_accepted(const SmtpDialogue::Sent& sent, ordered_json recipients) {
  ordered_json j;
  j["error"] = "no recipient was accepted";
  j["recipients"] = std::move(recipients);
  Response out{.status = 422, .body = views::text_of(j)};
  const auto limit = [](const Reply& r) { return r.permanent() || status_of(r) == 429; };
  if (!std::ranges::all_of(sent.recipients, &Reply::permanent)) {
    out.status = std::ranges::all_of(sent.recipients, limit) ? 429 : 503;
    out.retry_after = kLater;
  }
  return out;
}

std::string accepted_body(const std::string& queue_id, const std::string& message_id, const ordered_json& recipients) {
  ordered_json j;
  j["queue_id"] = queue_id;
  if (!message_id.empty()) j["message_id"] = message_id;
  j["recipients"] = recipients;
  return views::text_of(j);
}

/// The last word of "250 2.0.0 Ok: 99 bytes for ID" and of "250 2.0.0 Ok: queued as ID". Empty: it is no id.
std::string id_in(const Reply& reply) {
  const auto blank = reply.text.rfind(' ');
  std::string word = blank == std::string::npos ? std::string() : reply.text.substr(blank + 1);
  return mail::is_queue_id(word) ? word : std::string();
}

std::string_view media_type(std::string_view field) { return trim(field.substr(0, field.find(';'))); }

}  // namespace

/// One request.
struct Submissions::Job {
  explicit Job(const Server& server)
      : smtp(server.loop, {.path = server.path("private/" + server.config.settings().penapi_submission_service),
                           .host = server.config.settings().myhostname}) {}
  SmtpDialogue smtp;
  HttpClient client;
  std::string token;
  std::string type;    // of the body
  std::string key;     // empty: none
  std::string digest;  // of the request
  HandedMail mail;
};

/// A part of penapi_submission_memory.
class Submissions::Memory {
 public:
  Memory(Submissions& of, std::size_t bytes) : of_(of), bytes_(bytes) {}
  ~Memory() {
    if (!taken_) return;
    of_.free_ += bytes_;
    of_.freed_.set();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Task<bool> take(async::Until until) {
    while (of_.free_ < bytes_) {
      of_.freed_.reset();
      if (!co_await of_.freed_.wait(until)) co_return false;
    }
    of_.free_ -= bytes_;
    taken_ = true;
    co_return true;
  }

 private:
  Submissions& of_;
  std::size_t bytes_;
  bool taken_ = false;
};

/// Of a token that has not been right yet, at smtpd.
class Submissions::Place {
 public:
  explicit Place(async::Semaphore& of) : of_(of) {}
  ~Place() {
    if (taken_) of_.release();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  Task<bool> take(async::Until until) {
    taken_ = (co_await of_.acquire(until)).has_value();
    co_return taken_;
  }

 private:
  async::Semaphore& of_;
  bool taken_ = false;
};

Submissions::Submissions(Server& server)
    : server_(server), free_(0), freed_(server.loop), strangers_(server.loop, kStrangers) {
  const auto& s = server.config.settings();
  free_ = static_cast<std::size_t>(s.penapi_submission_memory);
  largest_ = free_ / kTimes;
  if (s.message_size_limit > 0) largest_ = std::min(largest_, static_cast<std::size_t>(s.message_size_limit));
  if (s.penapi_submission_map.empty()) return;
  answers_ =
      std::make_unique<KeptAnswers>(server.loop,
                                    KeptAnswers::Options{.directory = s.penapi_submission_map,
                                                         .limit = static_cast<std::size_t>(s.penapi_idempotency_limit),
                                                         .time = s.penapi_idempotency_time},
                                    server.draining());
  answers_->start();
}

std::optional<Response> Submissions::read_head(const Request& request, Job& job) const {
  job.type = to_lower(media_type(request.content_type));
  if (job.type != kJson && job.type != kMessage)
    return failure(415, "Content-Type is application/json or message/rfc822");
  if (job.type == kJson && !request.query.empty()) return failure(400, "a request in JSON has no query");
  if (request.idempotency_key.empty()) return std::nullopt;
  const auto key = key_of(request.idempotency_key);
  if (!key) return failure(400, "Idempotency-Key is a text of at most 255 characters of visible ASCII");
  if (!answers_) return failure(400, "Idempotency-Key: penapi_submission_map is not set, so no key can be kept");
  job.key = answer_key(job.token, *key);
  return std::nullopt;
}

Task<Response> Submissions::take(async::Stream& stream, const RequestHead& head, bool local, bool& read) {
  Job job(server_);
  auto token = token_of(head.request().authorization);
  if (!token) co_return failure(401, "this needs a token: Authorization: Bearer TOKEN");
  job.token = *std::move(token);
  if (!local) {
    if (auto at = async::peer_address(stream.fd())) job.client.from = *std::move(at);
    if (auto at = async::local_address(stream.fd())) job.client.to = *std::move(at);
  }
  auto no = co_await log_in(job);
  if (!no) no = read_head(head.request(), job);
  if (!no && head.length() == 0) no = failure(400, "there is no body");
  Response response = no ? *std::move(no) : co_await take_body(stream, head, job, read);
  co_await job.smtp.quit();
  co_return response;
}

Task<std::optional<Response>> Submissions::log_in(Job& job) {
  const std::string name = sha256(job.token);
  if (known_.contains(name)) {
    auto no = co_await try_token(job);
    if (no && no->status == 401) known_.erase(name);
    co_return no;
  }
  Place place(strangers_);
  if (!co_await place.take({.deadline = server_.loop.now() + kStrangerWaits}))
    co_return put_off("too many tokens are tried at the same time");
  auto no = co_await try_token(job);
  if (!no) {
    if (known_.size() >= kKnown) known_.clear();
    known_.insert(name);
  } else if (no->status == 401) {
    co_await job.smtp.quit();
    (void)co_await server_.loop.sleep(kWrong, {.cancel = server_.draining()});
  }
  co_return no;
}

Task<std::optional<Response>> Submissions::try_token(Job& job) {
  const auto login = co_await job.smtp.open(job.client, job.token);
  if (!login) {
    const Error& error = login.error();
    log::warning("penapi_submission_service: {}", error.message());
    if (error.is(DialogueError::no_login) || error.is(DialogueError::no_chunks))
      co_return put_off("the service that takes mail is not set up for it: " + error.message(), kLater);
    co_return put_off("the service that takes mail does not answer");
  }
  if (login->code == 535) co_return failure(401, "a wrong token");
  if (login->positive()) co_return std::nullopt;
  log::warning("penapi_submission_service: a login is answered with {}", printable(login->text, 300));
  Response no = refused(*login);
  if (login->code == 454) no.status = 503;  // a fault of ours, and no limit
  if (no.status == 422 || no.status == 413)
    co_return put_off("the service that takes mail is not set up for it", kLater);
  co_return no;
}

Task<Response> Submissions::take_body(async::Stream& stream, const RequestHead& head, Job& job, bool& read) {
  const auto& s = server_.config.settings();
  Memory memory(*this, head.length() * kTimes);
  if (!co_await memory.take({.deadline = server_.loop.now() + s.penapi_timeout}))
    co_return put_off("other requests take all the memory: penapi_submission_memory");
  if (head.expects_continue()) stream.write("HTTP/1.1 100 Continue\r\n\r\n");
  const seconds at_slowest(static_cast<seconds::rep>(head.length() / kSlowest));
  const async::Until until{.deadline = server_.loop.now() + s.penapi_timeout + at_slowest};
  std::string body;
  if (const auto came = co_await stream.read_exact(head.length(), until); came)
    body = *came;
  else
    co_return failure(408, "the request took too long");
  stream.shrink_input();
  read = true;
  if (auto no = make_mail(head.request(), std::move(body), job)) co_return *std::move(no);
  if (job.key.empty()) co_return co_await send(job);
  co_return co_await with_key(job);
}

std::optional<Response> Submissions::make_mail(const Request& request, std::string body, Job& job) const {
  std::string described = job.type + "\n";
  for (const auto& [name, value] : request.query) described += name + "=" + value + "\n";
  job.digest = sha256(sha256(described) + sha256(body));
  // With a key a second copy of the message has the name of the first.
  std::array<std::byte, 16> random{};
  secure_random_bytes(random);
  const std::string unique =
      hex(job.key.empty() ? std::string(as_text(random)) : sha256(job.key + job.digest).substr(0, 16));
  const auto wrong = [](const Refusal& no) { return failure(no.status, no.text); };
  if (job.type == kMessage) {
    auto made = take_message(std::move(body), request.query);
    if (!made) return wrong(made.error());
    job.mail = *std::move(made);
    return std::nullopt;
  }
  auto parsed = parse_mail_request(body);
  if (!parsed) return wrong(parsed.error());
  body = std::string();
  auto made =
      compose(*std::move(parsed), {.message_id = "<" + unique + "@" + server_.config.settings().myhostname + ">",
                                   .date = rfc5322_date(server_.loop.clock().wall_now()),
                                   .boundary = unique});
  if (!made) return wrong(made.error());
  job.mail = *std::move(made);
  return std::nullopt;
}

Task<Result<bool>> Submissions::in_queue(std::string queue_id) {
  ipc::queue::List list;
  list.request = 1;
  list.queue_ids = {std::move(queue_id)};
  bool found = false;
  const auto done = co_await server_.ask(list, [&](ipc::queue::FromQmgr& m) {
    found = found || std::holds_alternative<ipc::queue::Entry>(m);
    return true;
  });
  if (!done) co_return std::unexpected(done.error());
  if (*done && (*done)->outcome != ipc::queue::Outcome::ok && (*done)->outcome != ipc::queue::Outcome::not_found)
    co_return fail_errno((*done)->text, EAGAIN);
  co_return found;
}

Task<Response> Submissions::with_key(Job& job) {
  const auto& s = server_.config.settings();
  if (auto open = co_await answers_->loaded({.deadline = server_.loop.now() + s.penapi_timeout}); !open)
    co_return put_off("the answers to earlier requests cannot be read yet");
  const KeptAnswers::Turn turn(*answers_, job.key);
  if (!turn) co_return failure(409, "another request with this Idempotency-Key is under way");
  if (const Answered* found = answers_->find(job.key)) {
    Answered known = *found;
    if (known.digest != job.digest)
      co_return failure(422, "an earlier request with this Idempotency-Key was another one");
    if (!known.certain) {
      const auto there = co_await in_queue(known.queue_id);
      if (!there) co_return put_off("the queue manager does not say what became of the earlier request");
      known.certain = *there;
      if (*there) {
        log::info("{}: an earlier request with the same key has queued this", known.queue_id);
        if (const auto kept = co_await answers_->keep(job.key, known); !kept)
          log::warning("penapi_submission_map: {}", kept.error().message());
      }
    }
    if (known.certain) {
      Response again{.status = known.status, .body = std::move(known.body)};
      again.replayed = true;
      co_return again;
    }
  }
  Response response = co_await send(job);
  // Refusals for good are answers too. What was put off may be asked again, and is kept only where the end is not
  // known.
  if (response.status == 422 || response.status == 413) {
    Answered answer{.certain = true,
                    .digest = job.digest,
                    .at = server_.loop.clock().wall_now(),
                    .queue_id = {},
                    .status = static_cast<std::uint16_t>(response.status),
                    .body = response.body};
    if (answers_->has_room(job.key, answer))
      if (const auto kept = co_await answers_->keep(job.key, std::move(answer)); !kept)
        log::warning("penapi_submission_map: {}", kept.error().message());
  }
  co_return response;
}

Task<Response> Submissions::send(Job& job) {
  auto sent = co_await job.smtp.envelope(job.mail.envelope, job.mail.content.size());
  if (!sent || sent->sender.code == 421) {  // the session waited too long for the body, or smtpd was replaced meanwhile
    co_await job.smtp.quit();
    if (auto no = co_await log_in(job)) co_return *std::move(no);
    sent = co_await job.smtp.envelope(job.mail.envelope, job.mail.content.size());
  }
  if (!sent) co_return lost(sent.error());
  if (!sent->sender.positive()) co_return refused(sent->sender);
  co_return co_await deliver(job, *sent);
}

Task<Response> Submissions::deliver(Job& job, const SmtpDialogue::Sent& sent) {
  ordered_json recipients = recipients_json(job.mail.envelope, sent.recipients);
  if (!sent.any()) co_return none_accepted(sent, std::move(recipients));
  const auto content = co_await job.smtp.content(job.mail.content);
  if (!content) co_return lost(content.error());
  if (content->code == 502) {  // a command that it does not know is not the client's fault
    log::warning("penapi_submission_service: BDAT is answered with {}", printable(content->text, 300));
    co_return put_off("the service that takes mail is not set up for it", kLater);
  }
  if (!content->positive()) co_return refused(*content, std::move(recipients));
  const std::string id = id_in(*content);
  if (id.empty()) {
    log::warning("penapi_submission_service: smtpd_sasl_type is not token there: {}", printable(content->text, 300));
    co_return put_off("the service that takes mail is not set up for it", kLater);
  }
  const std::string body = accepted_body(id, job.mail.message_id, recipients);
  Answered answer{.certain = false,
                  .digest = job.digest,
                  .at = server_.loop.clock().wall_now(),
                  .queue_id = id,
                  .status = 202,
                  .body = body};
  if (!job.key.empty()) {
    if (!answers_->has_room(job.key, answer))
      co_return put_off("there is no room for one more Idempotency-Key: penapi_idempotency_limit", kLater);
    if (const auto kept = co_await answers_->keep(job.key, answer); !kept) {
      log::warning("penapi_submission_map: {}", kept.error().message());
      co_return put_off("the Idempotency-Key cannot be kept");
    }
  }
  job.mail.content = std::string();
  const auto end = co_await job.smtp.finish();
  if (!end) {
    log::warning("{}: penapi_submission_service: {}", id, end.error().message());
    co_return put_off(
        job.key.empty() ? "the service that takes mail went away: whether the message " + id + " is queued is not known"
                        : "the service that takes mail went away: ask again with the same Idempotency-Key");
  }
  if (!end->positive()) {
    // What was put off may be queued all the same, where smtpd did not hear the word of qmgr: the record stays, and the
    // next request with the key looks into the queue.
    if (!job.key.empty() && end->permanent())
      if (const auto gone = co_await answers_->forget(job.key); !gone)
        log::warning("penapi_submission_map: {}", gone.error().message());
    co_return refused(*end, std::move(recipients));
  }
  answer.certain = true;
  // The message is queued, whatever the disk says: without this the next request with the key looks into the queue.
  if (!job.key.empty())
    if (const auto kept = co_await answers_->keep(job.key, answer); !kept)
      log::warning("penapi_submission_map: {}", kept.error().message());
  log::info("{}: handed in by HTTP: {} of {} recipients", id, std::ranges::count_if(sent.recipients, &Reply::positive),
            sent.recipients.size());
  co_return Response{.status = 202, .body = body};
}

}  // namespace pen::api
