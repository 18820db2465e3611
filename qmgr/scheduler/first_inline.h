#pragma once
/// A map from pointers with the first entry inside its owner: most messages have one job, which waits for one cluster
/// and goes down one connection. Further entries are in a hash table, made when it is wanted.
///
/// Values stay where they are until they are erased. No iteration: the order would be that of addresses.
#include <memory>
#include <unordered_map>
#include <utility>

namespace pen::qmgr {

template <class Key, class Value>
class FirstInline {
 public:
  FirstInline() {}
  FirstInline(const FirstInline&) = delete;
  FirstInline& operator=(const FirstInline&) = delete;
  ~FirstInline() {
    if (key_ != nullptr) std::destroy_at(&first_);
  }
  /// The key must not be nullptr. nullptr: there is none.
  Value* find(const Key* key) {
    if (key == key_) return &first_;
    if (!more_) return nullptr;
    const auto at = more_->find(key);
    return at == more_->end() ? nullptr : &at->second;
  }
  /// The key must be a new one, and not nullptr.
  template <class... Arguments>
  Value& make(const Key* key, Arguments&&... arguments) {
    if (key_ == nullptr) {
      key_ = key;
      return *std::construct_at(&first_, std::forward<Arguments>(arguments)...);
    }
    if (!more_) more_ = std::make_unique<More>();
    return more_->try_emplace(key, std::forward<Arguments>(arguments)...).first->second;
  }
  void erase(const Key* key) {
    if (key == key_) {
      std::destroy_at(&first_);
      key_ = nullptr;
    } else if (more_) {
      more_->erase(key);
      if (more_->empty()) more_.reset();
    }
  }

 private:
  using More = std::unordered_map<const Key*, Value>;
  const Key* key_ = nullptr;  // of first_; nullptr: that does not live
  union {
    Value first_;
  };
  std::unique_ptr<More> more_;
};

}  // namespace pen::qmgr
