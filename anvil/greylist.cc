#include "anvil/greylist.h"

#include <algorithm>

#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/base/digest/digest.h"

namespace pen::anvil {
namespace {

constexpr std::size_t kLookedAt = 8;
// Other hosts hear that something is still used after this part of the time for which they would remember it.
constexpr std::int64_t kToldAgain = 16;

struct StoredTriplet {
  std::int64_t first = 0, last = 0;
  std::uint32_t window = 0, keep = 0;
  bool passed = false;
  std::uint64_t client_high = 0, client_low = 0;
  PEN_FIELDS(first, last, window, keep, passed, client_high, client_low)
};
struct StoredClient {
  std::int64_t last = 0;
  std::uint32_t keep = 0, passes = 0;
  PEN_FIELDS(last, keep, passes)
};

}  // namespace

Greylist::Key Greylist::key_of(std::string_view text) {
  // Strangers choose the text: a digest that they could find collisions of would let them fill one place of a table.
  const std::string digest = digest::hash(digest::Digest::sha256, text);
  PEN_CHECK(digest.size() >= 16);
  return {load_le<std::uint64_t>(as_bytes(digest).data()), load_le<std::uint64_t>(as_bytes(digest).data() + 8)};
}

std::string Greylist::stored(char kind, const Key& key) {
  std::string out(17, kind);
  store_le(reinterpret_cast<std::byte*>(out.data() + 1), key.high);
  store_le(reinterpret_cast<std::byte*>(out.data() + 9), key.low);
  return out;
}

bool Greylist::stale(const Triplet& t, std::int64_t now) {
  return t.passed ? since(t.last, now) > t.keep : since(t.first, now) > t.window;
}

void Greylist::take(std::string_view key, std::string_view value) {
  if (key.size() != 17) return;
  const Key k{load_le<std::uint64_t>(as_bytes(key).data() + 1), load_le<std::uint64_t>(as_bytes(key).data() + 9)};
  if (key[0] == kTripletKind && triplets_.size() < most_triplets_) {
    const auto s = decode<StoredTriplet>(value);
    if (!s) return;
    const Key client{s->client_high, s->client_low};
    const Triplet t{s->first, s->last, s->window, s->keep, s->passed, client};
    if (triplets_.emplace(k, t).second && !t.passed && (clients_.contains(client) || clients_.size() < most_clients_))
      ++clients_[client].pending;
  } else if (key[0] == kClientKind && (clients_.contains(k) || clients_.size() < most_clients_)) {
    const auto s = decode<StoredClient>(value);
    if (!s || (clients_.contains(k) && clients_[k].passes > 0)) return;
    Client& c = clients_[k];
    c.last = s->last;
    c.keep = s->keep;
    c.passes = s->passes;
  }
}

Greylist::Keys Greylist::keys_of(const Question& q) {
  return {stored(kTripletKind, key_of(q.client + '\0' + q.sender + '\0' + q.recipient)),
          stored(kClientKind, key_of(q.client))};
}

bool Greylist::knows(const Question& q, WallTime wall) const {
  const std::int64_t now = unix_seconds(wall);
  const auto client = clients_.find(key_of(q.client));
  if (client != clients_.end() && q.passes > 0 && client->second.passes >= q.passes &&
      since(client->second.last, now) <= client->second.keep)
    return true;
  const auto triplet = triplets_.find(key_of(q.client + '\0' + q.sender + '\0' + q.recipient));
  return triplet != triplets_.end() && triplet->second.passed && !stale(triplet->second, now);
}

void Greylist::learn(std::string_view key, std::string_view value, WallTime wall) {
  if (key.size() != 17) return;
  const std::int64_t now = unix_seconds(wall);
  const Key k{load_le<std::uint64_t>(as_bytes(key).data() + 1), load_le<std::uint64_t>(as_bytes(key).data() + 9)};
  if (key[0] == kTripletKind) {
    const auto s = decode<StoredTriplet>(value);
    if (!s) return;
    const Triplet theirs{s->first, s->last, s->window, s->keep, s->passed, {s->client_high, s->client_low}};
    const auto mine = triplets_.find(k);
    if (stale(theirs, now)) return;
    if (mine != triplets_.end() && !stale(mine->second, now) &&
        (mine->second.passed || (!theirs.passed && mine->second.first <= theirs.first)))
      return;
    if (mine != triplets_.end()) remove(mine);
    make_room();
    triplets_.emplace(k, theirs);
    if (!theirs.passed) ++clients_[theirs.client].pending;
    changed_.insert(std::string(key));
  } else if (key[0] == kClientKind) {
    const auto s = decode<StoredClient>(value);
    if (!s || since(s->last, now) > s->keep) return;
    const auto mine = clients_.find(k);
    if (mine != clients_.end() && mine->second.passes >= s->passes &&
        since(mine->second.last, now) <= mine->second.keep)
      return;
    make_room();
    Client& c = clients_[k];
    c.last = s->last;
    c.keep = s->keep;
    c.passes = s->passes;
    changed_.insert(std::string(key));
  }
}

void Greylist::tell(const Key& key, const Triplet& t, std::int64_t now) {
  if (!tells_) return;
  const std::int64_t left = t.passed ? t.keep : t.window - since(t.first, now);
  told_.push_back({stored(kTripletKind, key),
                   encode(StoredTriplet{t.first, t.last, t.window, t.keep, t.passed, t.client.high, t.client.low}),
                   left});
}

void Greylist::tell(const Key& key, const Client& c) {
  if (tells_) told_.push_back({stored(kClientKind, key), encode(StoredClient{c.last, c.keep, c.passes}), c.keep});
}

Greylist::Answer Greylist::ask(const Question& q, WallTime wall) {
  const std::int64_t now = unix_seconds(wall);
  const Key client_key = key_of(q.client);
  const auto client = clients_.find(client_key);
  if (client != clients_.end() && q.passes > 0 && client->second.passes >= q.passes &&
      since(client->second.last, now) <= client->second.keep) {
    const std::int64_t unused = since(client->second.last, now);
    client->second.last = now;
    client->second.keep = q.keep;
    changed_.insert(stored(kClientKind, client_key));
    if (unused >= q.keep / kToldAgain) tell(client_key, client->second);
    return {};
  }
  const Key key = key_of(q.client + '\0' + q.sender + '\0' + q.recipient);
  auto at = triplets_.find(key);
  if (at != triplets_.end() && stale(at->second, now)) {
    remove(at);
    at = triplets_.end();
  }
  if (at == triplets_.end()) {
    const auto known = clients_.find(client_key);
    if (known != clients_.end() && known->second.pending >= kMostPending) return {.wait = std::max(1U, q.delay)};
    make_room();
    at = triplets_.emplace(key, Triplet{now, now, q.window, q.keep, false, client_key}).first;
    ++clients_[client_key].pending;
    changed_.insert(stored(kTripletKind, key));
    if (q.delay > 0) {
      tell(key, at->second, now);
      return {.wait = q.delay};
    }
  }
  Triplet& t = at->second;
  const std::int64_t age = since(t.first, now);
  if (!t.passed && age < q.delay) return {.wait = static_cast<std::uint32_t>(q.delay - age)};
  Answer answer;
  bool news = since(t.last, now) >= q.keep / kToldAgain;
  if (!t.passed) {
    answer.delayed = static_cast<std::uint32_t>(age);
    passed(t, q, now);
    news = true;
  }
  t.last = now;
  t.keep = q.keep;
  if (news) tell(key, t, now);
  changed_.insert(stored(kTripletKind, key));
  return answer;
}

void Greylist::passed(Triplet& t, const Question& q, std::int64_t now) {
  t.passed = true;
  Client& c = clients_[t.client];
  if (c.pending > 0) --c.pending;
  if (c.passes > 0 && since(c.last, now) > c.keep) c.passes = 0;
  ++c.passes;
  c.last = now;
  c.keep = q.keep;
  changed_.insert(stored(kClientKind, t.client));
  tell(t.client, c);
}

void Greylist::remove(Triplets::iterator at) {
  const Triplet gone = at->second;
  changed_.insert(stored(kTripletKind, at->first));
  triplets_.erase(at);
  if (gone.passed) return;
  const auto client = clients_.find(gone.client);
  if (client == clients_.end()) return;
  if (client->second.pending > 0) --client->second.pending;
  settle(gone.client);
}

void Greylist::settle(const Key& key) {
  const auto at = clients_.find(key);
  if (at != clients_.end() && at->second.pending == 0 && at->second.passes == 0) clients_.erase(at);
}

void Greylist::make_room() {
  // The one that waits longest of a few at a moving place; what has passed goes only if nothing else is there.
  if (triplets_.size() >= most_triplets_) {
    const Key* worst = nullptr;
    std::pair<bool, std::int64_t> age;
    visit_some(triplets_, place_, kLookedAt, [&](const Key& key, const Triplet& t) {
      const std::pair mine(t.passed, t.last);
      if (worst != nullptr && mine >= age) return;
      worst = &key;
      age = mine;
    });
    if (worst != nullptr) remove(triplets_.find(*worst));
  }
  if (clients_.size() >= most_clients_) {
    const Key* worst = nullptr;
    std::pair<std::uint32_t, std::int64_t> age;
    visit_some(clients_, client_place_, kLookedAt, [&](const Key& key, const Client& c) {
      const std::pair mine(c.passes, c.last);
      if (worst != nullptr && mine >= age) return;
      worst = &key;
      age = mine;
    });
    if (worst != nullptr) {
      const Key gone = *worst;
      changed_.insert(stored(kClientKind, gone));
      clients_.erase(gone);
    }
  }
}

void Greylist::collect_some(WallTime wall, std::size_t most) {
  const std::int64_t now = unix_seconds(wall);
  std::vector<Key> gone;
  visit_some(triplets_, place_, most, [&](const Key& key, const Triplet& t) {
    if (stale(t, now)) gone.push_back(key);
  });
  for (const Key& key : gone) remove(triplets_.find(key));
  gone.clear();
  visit_some(clients_, client_place_, most, [&](const Key& key, const Client& c) {
    if (c.passes > 0 && since(c.last, now) > c.keep) gone.push_back(key);
  });
  for (const Key& key : gone) {
    clients_[key].passes = 0;
    changed_.insert(stored(kClientKind, key));
    settle(key);
  }
}

std::vector<Change> Greylist::take_changes(std::size_t most) {
  std::vector<Change> out;
  for (auto it = changed_.begin(); it != changed_.end() && out.size() < most; it = changed_.erase(it)) {
    const Key key{load_le<std::uint64_t>(as_bytes(*it).data() + 1), load_le<std::uint64_t>(as_bytes(*it).data() + 9)};
    Change change{*it, std::nullopt};
    if (const auto t = triplets_.find(key); it->front() == kTripletKind && t != triplets_.end()) {
      const Triplet& v = t->second;
      change.value = encode(StoredTriplet{v.first, v.last, v.window, v.keep, v.passed, v.client.high, v.client.low});
    }
    if (const auto c = clients_.find(key); it->front() == kClientKind && c != clients_.end() && c->second.passes > 0)
      change.value = encode(StoredClient{c->second.last, c->second.keep, c->second.passes});
    out.push_back(std::move(change));
  }
  return out;
}

}  // namespace pen::anvil
