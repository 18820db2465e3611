#include "smtpd/authentication.h"

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/trust/dkim/arc.h"
#include "smtpd/results_field.h"

namespace pen::smtpd {
namespace {

// A digest of so much takes as long as the way to the pool and back.
constexpr std::size_t kAside = 32 * 1024;

/// A permit for a question, given back whatever becomes of it.
class Turn {
 public:
  explicit Turn(async::Semaphore& permits) : permits_(permits) {}
  ~Turn() { permits_.release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  async::Semaphore& permits_;
};

}  // namespace

/// The content while it is checked. The pool works on it: it outlives the message.
struct Authentication::Content {
  std::string text;             // the client's header, and what of the body came with it
  std::size_t header_size = 0;  // with the empty line, if there is one
  std::vector<dkim::FieldView> fields;
  std::optional<intake::HeldContent> rest;
  std::optional<dkim::Verifier> verifier;
  bool seals = false;                 // the message is to be sealed here
  std::optional<dkim::ArcChain> arc;  // only then, or where seals of somebody are believed
  dkim::ArcOutcome sealed;

  /// The DNS names of the keys. Those beyond the bound are not asked for, and are not there.
  std::set<std::string> wanted() const {
    std::set<std::string> names;
    for (auto& name : verifier->wanted()) names.insert(std::move(name));
    if (arc)
      for (auto& name : arc->wanted())
        if (names.size() < kMostKeys) names.insert(std::move(name));
    return names;
  }
  void hash(std::string_view piece) {
    verifier->body(piece);
    if (arc) arc->body(piece);
  }
  std::vector<dkim::Outcome> judge(const std::map<std::string, dkim::KeyAnswer>& answers) {
    if (arc) sealed = arc->result(answers);
    return verifier->results(answers);
  }
  std::string_view body() const { return std::string_view(text).substr(header_size); }
};

Authentication::Authentication(Server& server, const Policy& policy, const ClientFacts& client, std::string sender,
                               Scope scope)
    : server_(server),
      policy_(policy),
      client_(client),
      sender_(std::move(sender)),
      helo_(client.helo),
      scope_(scope),
      records_([this](std::string name, net::RecordType type, async::Until until) {
        return ask(std::move(name), type, until);
      }),
      spf_done_(server.loop),
      gate_(server.loop) {
  spf_asked_ = scope_ == Scope::all && policy_.authentication.spf;
}

bool Authentication::asks_dkim() const { return scope_ == Scope::all && policy_.authentication.dkim; }
bool Authentication::asks_dmarc() const { return scope_ == Scope::all && policy_.authentication.dmarc; }

async::Task<net::DnsAnswer> Authentication::ask(std::string name, net::RecordType type, async::Until until) {
  if (!co_await server_.authentications.acquire(until)) co_return net::DnsAnswer{};
  const Turn turn(server_.authentications);
  co_return co_await server_.names.records(std::move(name), type, until);
}

void Authentication::begin() {
  if (!spf_asked_) return;
  spf::Question question{.client = parse_ip(client_.peer.address).value_or(IpAddress{}),
                         .sender = sender_,
                         .helo = helo_,
                         .receiver = policy_.settings.myhostname,
                         .now = server_.loop.clock().wall_now(),
                         .allowance = &spf_allowance_};
  // A HELO name that is no host name has no record (RFC 7208 section 2.3).
  helo_asked_ = mail::fully_qualified(helo_) && !mail::numeric_hostname(helo_);
  waiting_ = 1;
  if (helo_asked_) {
    spf::Question about_helo = question;
    about_helo.sender = "postmaster@" + helo_;
    gate_.spawn("spf helo", run_spf(this, std::move(about_helo), &helo_spf_));
    if (!sender_.empty()) ++waiting_;
  }
  if (!sender_.empty())
    gate_.spawn("spf", run_spf(this, std::move(question), &mail_spf_));
  else if (!helo_asked_) {
    waiting_ = 0;
    spf_done_.set();
  }
}

async::Task<void> Authentication::run_spf(Authentication* self, spf::Question question, spf::Outcome* out) {
  *out = co_await spf::check(self->records_, std::move(question), {.deadline = self->server_.loop.now() + kPatience});
  if (--self->waiting_ == 0) self->spf_done_.set();
}

async::Task<const spf::Outcome*> Authentication::spf() {
  (void)co_await spf_done_.wait();  // each question has a time limit
  co_return sender_.empty() ? &helo_spf_ : &mail_spf_;
}

async::Task<Result<std::shared_ptr<Authentication::Content>>> Authentication::read_header(intake::Message& message) {
  auto out = std::make_shared<Content>();
  out->rest.emplace(server_.pool, *message.body(), message.bytes_in_front());
  for (std::size_t seen = 0;;) {
    auto piece = co_await out->rest->next();
    if (!piece) co_return std::unexpected(std::move(piece).error());
    out->text += *piece;
    const bool ended = out->text.starts_with("\r\n") || out->text.find("\r\n\r\n", seen) != std::string::npos;
    if (ended || piece->empty() || out->text.size() > kMaxHeader) break;
    seen = out->text.size() - std::min<std::size_t>(out->text.size(), 3);
  }
  out->fields = dkim::split_fields(out->text, dkim::Verifier::kMostFields);
  if (!out->fields.empty()) {
    const auto& last = out->fields.back().whole;
    out->header_size = static_cast<std::size_t>(last.data() + last.size() - out->text.data()) + 2;
  }
  out->header_size = std::min(out->header_size, out->text.size());
  if (std::string_view(out->text).substr(out->header_size).starts_with("\r\n")) out->header_size += 2;
  co_return out;
}

async::Task<void> Authentication::ask_key(Authentication* self, std::string name, dkim::KeyAnswer* out,
                                          async::Until until) {
  using State = dkim::KeyAnswer::State;
  const net::DnsAnswer answer = co_await self->ask(std::move(name), net::RecordType::txt, until);
  for (const auto& record : answer.records) out->texts.push_back(record.data);
  out->state = answer.outcome == net::DnsOutcome::found       ? State::found
               : answer.outcome == net::DnsOutcome::temporary ? State::unknown
                                                              : State::missing;
}

async::Task<Result<void>> Authentication::verify(std::shared_ptr<Content> content, async::Until until) {
  content->verifier.emplace(server_.loop.clock().wall_now());
  content->verifier->header(std::string_view(content->text).substr(0, content->header_size));
  if (content->seals || (asks_dmarc() && !policy_.settings.arc_trusted_sealers.empty()))
    content->arc.emplace(content->fields, server_.loop.clock().wall_now());
  std::map<std::string, dkim::KeyAnswer> answers;
  async::Gate keys(server_.loop);  // after what its tasks point to
  for (const auto& name : content->wanted()) keys.spawn("dkim key", ask_key(this, name, &answers[name], until));
  if (!answers.empty()) {
    // The keys come while the body is read.
    for (std::string piece(content->body()); !piece.empty();) {
      if (piece.size() < kAside)
        content->hash(piece);
      else
        co_await server_.pool.run_erased(
            [content, part = std::make_shared<const std::string>(std::move(piece))] { content->hash(*part); });
      auto more = co_await content->rest->next();
      if (!more) co_return std::unexpected(std::move(more).error());
      piece = *std::move(more);
    }
  }
  (void)co_await keys.drained();  // each question has a time limit
  if (answers.empty())
    dkim_ = content->judge(answers);
  else
    dkim_ = co_await server_.pool.run([content, answers = std::move(answers)] { return content->judge(answers); });
  dkim_done_ = true;
  co_return Result<void>();
}

bool Authentication::vouched_for(const Content& content, std::string_view author) const {
  return content.sealed.verdict == dkim::ArcVerdict::pass &&
         std::ranges::any_of(policy_.settings.arc_trusted_sealers,
                             [&](const auto& domain) { return iequals(domain, content.sealed.sealer); }) &&
         dkim::says_dmarc_pass(content.sealed.seen, author);
}

async::Task<void> Authentication::judge_author(const Content& content, async::Until until) {
  dmarc::Facts facts;
  std::vector<std::string_view> from;
  for (const auto& field : content.fields)
    if (iequals(field.name, "From")) from.push_back(field.whole.substr(field.whole.find(':') + 1));
  facts.authors = dmarc::authors_of(from);
  if (const spf::Outcome* found = co_await spf(); !found->domain.empty())
    facts.spf = dmarc::Identity{.domain = found->domain,
                                .passed = found->verdict == spf::Verdict::pass,
                                .unknown = found->verdict == spf::Verdict::temperror};
  for (const auto& one : dkim_)
    facts.dkim.push_back({.domain = one.domain,
                          .passed = one.verdict == dkim::Verdict::pass,
                          .unknown = one.verdict == dkim::Verdict::temperror});
  facts.all_identities = static_cast<bool>(server_.report_dmarc);
  const auto chance = static_cast<unsigned>(secure_random_u64() % 100);
  dmarc_ = co_await dmarc::check(records_, policy_.authentication.suffixes.get(), std::move(facts), chance, until);
  if (dmarc_->verdict != dmarc::Verdict::fail || !vouched_for(content, dmarc_->from)) co_return;
  // It stays a failure here; what is done about it is settled.
  dmarc_->disposition = dmarc::Policy::none;
  dmarc_->reason = "passed at " + content.sealed.sealer + ", says ARC";
}

std::string Authentication::results(const Content& content) {
  ResultsField field(policy_.settings.authserv_id);
  if (spf_asked_) {
    const auto add = [&](const spf::Outcome& outcome, std::string_view property, const std::string& value) {
      field.method("spf", spf::verdict_word(outcome.verdict), outcome.reason);
      field.property(property, value);
    };
    if (!sender_.empty()) add(mail_spf_, "smtp.mailfrom", sender_);
    if (helo_asked_)
      add(helo_spf_, "smtp.helo", helo_);
    else if (sender_.empty())
      field.method("spf", "none", "no domain to ask about");
  }
  if (dkim_done_ && dkim_.empty()) field.method("dkim", "none");
  for (const auto& one : dkim_) {
    field.method("dkim", dkim::verdict_word(one.verdict), one.reason);
    field.property("header.d", one.domain);
    field.property("header.i", one.identity);
    field.property("header.s", one.selector);
    field.property("header.a", one.algorithm);
    field.property("header.b", one.tag);
  }
  if (content.arc) {
    field.method("arc", dkim::verdict_word(content.sealed.verdict), content.sealed.reason);
    field.property("header.d", content.sealed.sealer);
  }
  if (dmarc_) {
    field.method("dmarc", dmarc_word(), dmarc_->reason);
    field.property("header.from", dmarc_->from);
    if (dmarc_->verdict == dmarc::Verdict::fail || dmarc_->verdict == dmarc::Verdict::pass)
      field.property("policy.dmarc", dmarc::policy_word(dmarc_->policy));
  }
  line_ = field.line();
  return line_.empty() ? std::string() : field.text();
}

Result<bool> Authentication::to_be_sealed(intake::Message& message) const {
  const AuthenticationPolicy& policy = policy_.authentication;
  if (!server_.intake.settings.sealing || !asks_dkim()) return false;
  if (policy.seals_all) return true;
  std::set<std::string> domains;  // each is looked up once: they are few, and recipients may be many
  for (const auto& recipient : message.envelope().recipients) {
    const std::string whole = server_.intake.resolve->rewrite(recipient.address);
    const std::string domain(mail::domain_part(whole));
    if (!domains.insert(domain).second) continue;
    PEN_TRY_ASSIGN(const bool named, policy.sealed_domains.matches(domain));
    if (named) return true;
  }
  return false;
}

void Authentication::seal(intake::Message& message, const Content& content, std::string_view results) const {
  const auto place = dkim::ArcPlace::of(content.fields);
  if (const auto why = place.obstacle(content.sealed.verdict); !why.empty())
    return log::info("{}: not sealed: {}", message.queue_id(), why);
  message.seal({.sealing = server_.intake.settings.sealing,
                .results = std::string(results.substr(results.find(':') + 1)),
                .verdict = content.sealed.verdict,
                .chain = place.text});
}

async::Task<intake::Commit> Authentication::content(intake::Message& message, async::Until until) {
  using intake::Commit;
  using intake::Outcome;
  const auto seals = to_be_sealed(message);  // before any question to DNS
  if (!seals) co_return Commit{Outcome::lookup_failed, "arc_seal_domains: " + seals.error().message()};
  Commit shown = co_await message.show_content(until);
  if (shown.outcome != Outcome::ok || message.body()->problem() != intake::Body::Problem::none) co_return shown;
  const auto lost = [](const Error& error) { return Commit{Outcome::spool_failed, "spool file: " + error.message()}; };
  auto read = co_await read_header(message);
  if (!read) co_return lost(read.error());
  const std::shared_ptr<Content> held = *std::move(read);
  if (held->header_size >= kMaxHeader) co_return Commit{Outcome::too_large, "header"};
  if (asks_spf()) (void)co_await spf();
  const async::Until patience{.deadline = server_.loop.now() + kPatience};
  held->seals = *seals;
  if (asks_dkim())
    if (auto verified = co_await verify(held, patience); !verified) co_return lost(verified.error());
  if (asks_dmarc()) co_await judge_author(*held, patience);
  std::vector<intake::Message::Cut> forged;
  for (const auto& field : held->fields) {
    if (!iequals(field.name, kResultsName) ||
        !names_server(field.whole.substr(field.whole.find(':') + 1), policy_.settings.authserv_id))
      continue;
    const auto at = static_cast<std::size_t>(field.whole.data() - held->text.data());
    forged.push_back({at, std::min(field.whole.size() + 2, held->text.size() - at)});
  }
  const std::size_t header_size = held->header_size;
  std::string field = results(*held);
  if (held->seals) seal(message, *held, field);
  co_return co_await message.add_results(std::move(field), std::move(forged), header_size, until);
}

std::string_view Authentication::spf_word() const {
  if (!spf_asked_ || !spf_done_.is_set()) return {};
  return spf::verdict_word((sender_.empty() ? helo_spf_ : mail_spf_).verdict);
}

std::string_view Authentication::dkim_word() const {
  if (!dkim_done_) return {};
  if (dkim_.empty()) return "none";
  // One that passes is enough; else the first one counts.
  const bool passed = std::ranges::any_of(dkim_, [](const auto& one) { return one.verdict == dkim::Verdict::pass; });
  return passed ? "pass" : dkim::verdict_word(dkim_.front().verdict);
}

std::string_view Authentication::dmarc_word() const {
  return dmarc_ ? dmarc::verdict_word(dmarc_->verdict) : std::string_view();
}

}  // namespace pen::smtpd
