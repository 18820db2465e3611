#include "lib/suite/service/table_request.h"

#include <boost/test/unit_test.hpp>

namespace pen::service {
namespace {

BOOST_AUTO_TEST_SUITE(table_request)

BOOST_AUTO_TEST_CASE(a_request_is_of_one_size_and_reads_back) {
  for (const std::string& path : {std::string("/t"), "/" + std::string(kMaxTablePath - 1, 'x')}) {
    const std::string bytes = encode_table_request(path);
    BOOST_TEST(bytes.size() == kTableRequestBytes);
    BOOST_TEST(parse_table_request(bytes).value_or("") == path);
  }
}

BOOST_AUTO_TEST_CASE(what_is_of_another_form_is_none) {
  const std::string good = encode_table_request("/t");
  std::string two = good, relative = good, endless = good;
  two[20] = 'x';
  relative[8] = 't';
  endless.replace(8, kMaxTablePath + 1, std::string(kMaxTablePath + 1, '/'));
  for (const std::string& bytes : {std::string(), good + '\0', good.substr(1), two, relative, endless})
    BOOST_TEST(!parse_table_request(bytes).has_value());
  BOOST_TEST(!parse_table_request("PEN\2" + good.substr(4)).has_value());
}

BOOST_AUTO_TEST_CASE(an_answer_is_an_errno) {
  for (const int error : {0, 13, 4095})
    BOOST_TEST(parse_table_answer(encode_table_answer(error)).value_or(-1) == error);
  BOOST_TEST(!parse_table_answer(encode_table_answer(4096)).has_value());
  BOOST_TEST(!parse_table_answer(encode_table_answer(-1)).has_value());
  BOOST_TEST(!parse_table_answer("").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
