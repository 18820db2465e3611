#include "lib/trust/signing/remote_keys.h"

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/config/key_process.h"

namespace pen::signing {
namespace {

using ipc::keys::Scheme;

class RemoteKey final : public dkim::SigningKey {
 public:
  RemoteKey(dkim::KeyShape shape, std::string key_id, std::string_view public_key)
      : SigningKey(shape.algorithm, shape.signature_size), id(std::move(key_id)), public_key_(public_key) {}
  /// Of an Ed25519 key the record has the key alone, which ends the SubjectPublicKeyInfo (RFC 8410 section 4).
  std::string public_bytes() const override {
    constexpr std::size_t kEd25519 = 32;
    if (algorithm() != dkim::Algorithm::ed25519_sha256 || public_key_.size() < kEd25519) return public_key_;
    return public_key_.substr(public_key_.size() - kEd25519);
  }
  const std::string id;

 private:
  std::string public_key_;
};

/// The parts of ipc::keys::dkim_name().
struct Name {
  std::string_view table, name, domain, selector;
};
Name parts_of(std::string_view text) {
  Name out;
  for (std::string_view* part : {&out.table, &out.name, &out.domain, &out.selector}) {
    const auto end = std::min(text.find('\n'), text.size());
    *part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// What the client's callback fills in, as long as somebody waits for it.
struct Waiting {
  explicit Waiting(async::Loop& loop) : answered(loop) {}
  async::Event answered;
  bool gone = false;
  ipc::keys::Refusal refusal = ipc::keys::Refusal::none;
  std::string data;
};

}  // namespace

std::string_view error_module(RemoteKeyError) { return "dkim"; }
std::string_view describe(RemoteKeyError e) {
  switch (e) {
    case RemoteKeyError::no_list:
      return "the key process has not said yet which keys there are";
    case RemoteKeyError::no_key:
      return "the key process has no such key";
    case RemoteKeyError::refused:
      return "the key process refuses to sign";
    case RemoteKeyError::gone:
      return "the key process does not answer";
  }
  return "unknown";
}

std::shared_ptr<RemoteKeys> RemoteKeys::open(async::Loop& loop, const config::Config& config, Report report,
                                             bool seals) {
  const auto socket = config::key_socket(config);
  const config::Settings& s = config.settings();
  if (!socket || !(s.dkim_signing || (seals && !s.arc_seal_key.empty()))) return nullptr;
  auto keys = std::make_shared<RemoteKeys>(loop, s.queue_directory + "/" + *socket, std::move(report));
  keys->start();
  return keys;
}

RemoteKeys::RemoteKeys(async::Loop& loop, std::string path, Report report)
    : loop_(loop),
      client_(std::make_shared<keys::Client>(
          loop, keys::Client::Options{.path = std::move(path),
                                      .conversation = ipc::keys::kDkimName,
                                      .meanwhile = "mail that is to be signed with DKIM waits",
                                      .report = std::move(report)})) {}

bool RemoteKeys::lists(const std::string& table) const {
  return !client_->held().contains(ipc::keys::dkim_name(table, "", "", ""));
}

Result<std::optional<RemoteKeys::Found>> RemoteKeys::find(const std::string& table, const std::string& name) const {
  const auto& held = client_->held();
  if (!client_->has_list()) return fail(RemoteKeyError::no_list);
  const std::string wanted = to_lower(name);
  // Names of key tables are compared without regard to case, and the list is sorted with regard to it.
  for (auto at = held.lower_bound(table + "\n"); at != held.end() && at->first.starts_with(table + "\n"); ++at) {
    const Name found = parts_of(at->first);
    if (!iequals(found.name, wanted)) continue;
    if (at->second.id.empty()) return fail(RemoteKeyError::no_key, at->second.error);
    PEN_TRY_ASSIGN(const dkim::KeyShape shape, dkim::shape_of(at->second.public_key));
    return Found{.key = std::make_shared<RemoteKey>(shape, at->second.id, at->second.public_key),
                 .domain = std::string(found.domain),
                 .selector = std::string(found.selector)};
  }
  return std::nullopt;
}

std::vector<std::string> RemoteKeys::problems(const std::string& table) const {
  std::vector<std::string> out;
  const auto& held = client_->held();
  for (auto at = held.lower_bound(table + "\n"); at != held.end() && at->first.starts_with(table + "\n"); ++at)
    if (!at->second.error.empty()) out.push_back(at->second.error);
  return out;
}

async::Task<Result<std::string>> RemoteKeys::sign(const dkim::SigningKey& key, std::string digest,
                                                  async::Until until) const {
  const auto* remote = dynamic_cast<const RemoteKey*>(&key);
  PEN_CHECK(remote != nullptr, "a key of this host");
  const auto waiting = std::make_shared<Waiting>(loop_);
  const std::weak_ptr<Waiting> weak = waiting;
  const Scheme scheme = key.algorithm() == dkim::Algorithm::rsa_sha256 ? Scheme::rsa_pkcs1_sha256 : Scheme::ed25519;
  client_->sign(
      remote->id, scheme, std::move(digest), [weak] { return !weak.expired(); },
      [weak](const ipc::keys::Done* done) {
        const auto w = weak.lock();
        if (!w) return;
        w->gone = done == nullptr;
        if (done != nullptr) {
          w->refusal = done->refusal;
          w->data = done->data;
        }
        w->answered.set();
      });
  until.deadline = std::min(until.deadline, loop_.now() + kPatience);
  if (const auto answered = co_await waiting->answered.wait(until); !answered)
    co_return answered.error().is(async::WaitError::timed_out) ? fail(RemoteKeyError::gone) : fail(answered.error());
  if (waiting->gone) co_return fail(RemoteKeyError::gone);
  if (waiting->refusal != ipc::keys::Refusal::none) {
    client_->ask_for_list();  // it has other keys now
    co_return fail(RemoteKeyError::refused);
  }
  if (waiting->data.size() != key.signature_size()) co_return fail(RemoteKeyError::refused);
  co_return std::move(waiting->data);
}

}  // namespace pen::signing
