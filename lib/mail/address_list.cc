#include <utility>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::mail {
namespace {

/// Reads the list in one pass; the text of an address gathers in `bare` (outside angle brackets) and `angle`.
class ListReader {
 public:
  ListReader(std::string_view text, std::size_t max, std::vector<std::string>* skipped = nullptr)
      : text_(text), max_(max), skipped_(skipped) {}

  /// The place of the address in the text: the part between begin and end can be replaced by another address.
  struct Place {
    std::size_t begin = 0, end = 0;
    bool clear = false;  // the place holds nothing but the address
  };
  const std::vector<Place>& places() const { return places_; }

  std::vector<ListedAddress> read() {
    while (at_ < text_.size() && found_.size() + (skipped_ == nullptr ? 0 : skipped_->size()) < max_) {
      const char c = text_[at_];
      switch (c) {
        case '(':
          skip_comment();
          break;
        case '"':
          read_quoted();
          break;
        case ',':
          finish();
          ++at_;
          break;
        case ';':
          finish();
          in_group_ = false;
          ++at_;
          break;
        case ':':
          // The end of a group's name, unless the colon belongs to an address literal (read_literal takes those).
          if (!in_group_ && !in_angle_) {
            bare_.clear();
            phrase_.clear();
            place_ = {};
            in_group_ = true;
          } else if (in_angle_) {
            angle_.clear();  // a route: the address follows
            place_ = {};
          }
          ++at_;
          break;
        case '<':
          skip(angle_);  // of several only the last one counts
          in_angle_ = true;
          had_angle_ = true;
          angle_.clear();
          place_ = {};
          ++at_;
          break;
        case '>':
          in_angle_ = false;
          ++at_;
          break;
        case '[':
          read_literal();
          break;
        default:
          if (ascii_space(c)) {
            space_ = space_ || !in_angle_;
            ++at_;
          } else if (c == '\\' && at_ + 1 < text_.size()) {
            put(text_.substr(at_, 2));
            at_ += 2;
          } else {
            put(text_.substr(at_, 1));
            ++at_;
          }
      }
    }
    finish();
    return std::move(found_);
  }

 private:
  void put(std::string_view piece) {
    if (in_angle_ || !had_angle_) {
      const auto begin = static_cast<std::size_t>(piece.data() - text_.data());
      if (place_.end == 0) place_ = {begin, begin, true};
      if (place_.end != begin) place_.clear = false;
      place_.end = begin + piece.size();
    }
    if (in_angle_) {
      angle_ += piece;
      return;
    }
    if (space_ && !phrase_.empty()) phrase_ += ' ';
    if (had_angle_) {
      if (space_ && !behind_.empty()) behind_ += ' ';
      behind_ += piece;
    }
    space_ = false;
    phrase_ += piece;
    bare_ += piece;
  }
  void skip(std::string_view text) {
    if (skipped_ != nullptr && !text.empty()) skipped_->emplace_back(text);
  }
  void skip_comment() {
    const std::size_t begin = at_;
    unsigned depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '(') {
        ++depth;
      } else if (text_[at_] == ')' && --depth == 0) {
        ++at_;
        return;
      }
    }
    skip(text_.substr(begin));  // without an end
  }
  void read_quoted() {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
    put(text_.substr(begin, at_ - begin));
  }
  void read_literal() {
    const auto close = text_.find(']', at_);
    const std::size_t end = close == std::string_view::npos ? text_.size() : close + 1;
    put(text_.substr(at_, end - at_));
    at_ = end;
  }
  void finish() {
    const std::string_view candidate = had_angle_ ? angle_ : bare_;
    PathOptions options;
    options.smtputf8 = true;
    if (!candidate.empty()) {
      if (auto address = parse_path(candidate, options)) {
        std::string name;
        if (had_angle_) name = unquote_local(phrase_);
        found_.push_back({*std::move(address), std::move(name)});
        places_.push_back(place_);
      } else {
        skip(had_angle_ ? angle_ : phrase_);
      }
    }
    if (behind_.contains('@')) skip(behind_);
    behind_.clear();
    bare_.clear();
    angle_.clear();
    phrase_.clear();
    place_ = {};
    in_angle_ = had_angle_ = space_ = false;
  }

  std::string_view text_;
  std::size_t max_;
  std::vector<std::string>* skipped_;  // nullptr: not wanted
  std::size_t at_ = 0;
  std::vector<ListedAddress> found_;
  std::vector<Place> places_;
  Place place_;
  std::string bare_, angle_, phrase_;
  std::string behind_;  // an address in angle brackets
  bool in_angle_ = false, had_angle_ = false, in_group_ = false, space_ = false;
};

}  // namespace

std::vector<ListedAddress> parse_address_list(std::string_view text, std::size_t max,
                                              std::vector<std::string>* skipped) {
  return ListReader(text, max, skipped).read();
}

Result<bool> replace_addresses(std::string& text, const AddressReplacer& replace, Quotes quotes) {
  ListReader reader(text, kMaxReplaced);
  const std::vector<ListedAddress> found = reader.read();
  std::string out;
  std::size_t done = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& place = reader.places()[i];
    if (!place.clear) continue;
    PEN_TRY_ASSIGN(const std::string other, replace(found[i].address));
    const auto written = std::string_view(text).substr(place.begin, place.end - place.begin);
    if (other == (quotes == Quotes::stay ? std::string_view(found[i].address) : written)) continue;
    out += std::string_view(text).substr(done, place.begin - done);
    out += other;
    done = place.end;
  }
  if (done == 0) return false;
  out += std::string_view(text).substr(done);
  text = std::move(out);
  return true;
}

}  // namespace pen::mail
