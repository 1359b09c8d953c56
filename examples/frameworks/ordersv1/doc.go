// Package ordersv1 is the shop's interface in protocol buffers, as orders.proto has
// it. Everything but this file is generated.
package ordersv1
