#define BOOST_TEST_MODULE penstock
#include <boost/test/unit_test.hpp>
